"""The PGD attack on explanations, with the outcome and the scores of every example."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball
from holdfast.attacks.base import (
    CleanSide,
    ExplanationResult,
    Outcome,
    check_eval_k,
    clean_side,
    compare,
    stand_in_notes,
)
from holdfast.attacks.pgd import PGD
from holdfast.attribution.saliency import map_of
from holdfast.engine.checks import check_images, check_labels
from holdfast.engine.modes import evaluating
from holdfast.losses.map_distance import NoDirection
from holdfast.metrics.maps import has_ranking
from holdfast.models.double_backward import require_second_order
from holdfast.types import Attribution, MapCache, Model


@dataclass(frozen=True, kw_only=True)
class PGDExplanationAttack:
    """Run `pgd` on the examples that can be attacked, and compare the maps of `attribution` before and after.

    `eval_k` is the k of the reported top-k intersection. It may differ from the k of the attack.

    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="test").x[:2])
    >>> ig = hf.IntegratedGradients(steps=5)
    >>> pgd = hf.PGD(hf.losses.MapCosine(attribution=ig), ball=hf.Linf(0.1), steps=2, step_size=0.05)
    >>> attack = PGDExplanationAttack(pgd=pgd, attribution=ig, eval_k=10)
    >>> result = attack.run(model, x, y=model(x).argmax(1), keys=torch.arange(2))
    >>> result.counts["attacked"], bool((result.scores.kendall < 1).all())
    (2, True)
    """

    pgd: PGD
    attribution: Attribution
    eval_k: int

    @property
    def ball(self) -> Ball:
        """The threat model of `pgd`."""
        return self.pgd.ball

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images shaped like x; the clean image where the attack failed or was not possible."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, clean: CleanSide | None = None
    ) -> ExplanationResult:
        """The perturbed images with the outcome and the scores of every example.

        `clean` is the result of `clean_side` for the same attribution; pass it to share it between attacks.
        """
        check_images(x)
        check_labels(y, x.shape[0])
        check_eval_k(self.eval_k, x)
        x = x.detach()
        with evaluating(model):
            if self.pgd.loss.second_order and x.shape[0]:
                require_second_order(model, x[:1])
            clean = clean or clean_side(model, x, y, self.attribution)
            active = clean.right & has_ranking(clean.maps)
            known: MapCache[Tensor] = MapCache()
            known.store(self.attribution, clean.maps)
            attacked = self.pgd.run(model, x, y, keys=keys, active=active, maps=known)
            outcome = torch.full_like(y, Outcome.ATTACKED)
            outcome[~attacked.found] = Outcome.UNMOVED
            if self.pgd.steps or self.pgd.random_start:  # otherwise nothing was tried, so no label was lost
                outcome[~attacked.found & (attacked.feasible == 0)] = Outcome.LABEL_LOST
            outcome[~active] = Outcome.NAN_MAP
            outcome[~clean.right] = Outcome.MISCLASSIFIED
            # a failed attack keeps the clean image and the clean map, and its scores are those of no change
            judged = attacked.maps.find(self.attribution)
            shown = self._maps(model, attacked.x_adv, y, attacked.found) if judged is None else judged
        moved = torch.where(attacked.found[:, None, None], shown, clean.maps)
        has_direction = not isinstance(self.pgd.loss, NoDirection)
        return ExplanationResult(
            x_adv=attacked.x_adv,
            outcome=outcome,
            scores=compare(clean.maps, moved, self.eval_k, valid=active),
            steps=active.to(torch.int64) * (self.pgd.steps * self.pgd.restarts * has_direction),
            random_steps=attacked.random_steps,
            notes=stand_in_notes(getattr(self.attribution, "search_map", None) if has_direction else None),
        )

    def _maps(self, model: Model, x: Tensor, y: Tensor, wanted: Tensor) -> Tensor:
        """Maps [B, H, W] of the examples in `wanted`, zero for the others."""
        maps = x.new_zeros(x.shape[0], *x.shape[2:])
        if bool(wanted.any()):
            maps[wanted] = map_of(model, x[wanted], y[wanted], self.attribution).detach()
        return maps
