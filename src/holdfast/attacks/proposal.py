"""Attacks that only propose images: gradient-free searches, universal perturbations, manipulation, user code."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball
from holdfast.attacks.base import CleanSide, ExplanationResult, Outcome, check_eval_k, clean_side, compare
from holdfast.attribution.saliency import map_of
from holdfast.engine.checks import check_batch
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.metrics.maps import has_ranking
from holdfast.metrics.rank_correlation import kendall_tau
from holdfast.types import Attribution, Model


class Propose(Protocol):
    """Returns one perturbed image per example."""

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class ProposalAttack:
    """Score the images that `propose` returns: whether the label is kept and the map changed, and the metrics.

    With a `ball`, the proposals are projected into it; without one, they are only clipped to the pixel range.

    >>> from holdfast.attacks.balls import Linf
    >>> from holdfast.attribution import Gradient
    >>> darker = lambda model, x, y, *, keys: x - 0.1
    >>> attack = ProposalAttack(propose=darker, attribution=Gradient(), eval_k=1, ball=Linf(0.05))
    """

    propose: Propose
    attribution: Attribution
    eval_k: int
    ball: Ball | None = None

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images shaped like x; the clean image where the label was lost or the map did not change."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, clean: CleanSide | None = None
    ) -> ExplanationResult:
        """The proposals with the outcome and the scores of every example."""
        check_batch(x, y, keys)
        check_eval_k(self.eval_k, x)
        x = x.detach()
        with evaluating(model):
            clean = clean or clean_side(model, x, y, self.attribution)
            active = clean.right & has_ranking(clean.maps)
            outcome = torch.full_like(y, Outcome.ATTACKED)
            x_adv, moved = x.clone(), clean.maps.clone()
            if bool(active.any()):
                proposed = self._inside(
                    self.propose(model, x[active], y[active], keys=keys[active]).detach(), x[active]
                )
                kept = predictions(model, proposed, images_per_pass(x)).labels == y[active]
                shown = map_of(model, proposed, y[active], self.attribution).detach()
                differs = kendall_tau(clean.maps[active], shown) < 1
                used = kept & differs
                outcome[active] = torch.where(
                    used, int(Outcome.ATTACKED), torch.where(kept, int(Outcome.UNMOVED), int(Outcome.LABEL_LOST))
                )
                rows = active.nonzero().flatten()[used]
                x_adv[rows], moved[rows] = proposed[used], shown[used]
        outcome[~active] = Outcome.NAN_MAP
        outcome[~clean.right] = Outcome.MISCLASSIFIED
        nothing = torch.zeros_like(y)
        return ExplanationResult(
            x_adv=x_adv,
            outcome=outcome,
            scores=compare(clean.maps, moved, self.eval_k, valid=active),
            steps=nothing,
            random_steps=nothing.clone(),
        )

    def _inside(self, x_adv: Tensor, x: Tensor) -> Tensor:
        return x_adv.clamp(0, 1) if self.ball is None else self.ball.project(x_adv, x)
