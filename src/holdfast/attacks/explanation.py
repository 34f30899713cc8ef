"""The projected-gradient attack on explanations, with its book-keeping: who was attacked, and how far the map moved."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball
from holdfast.attacks.base import CleanSide, ExplanationResult, Outcome, check_eval_k, clean_side, compare
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
    """Run `pgd` on the examples that can be attacked and score the maps of `attribution` before and after.

    `eval_k` is the k of the reported top-k intersection, which need not be the k that was attacked.
    """

    pgd: PGD
    attribution: Attribution
    eval_k: int

    @property
    def ball(self) -> Ball:
        """What counts as a small change."""
        return self.pgd.ball

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images like x; the clean image wherever the attack failed or was not possible."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, clean: CleanSide | None = None
    ) -> ExplanationResult:
        """The perturbed images with the outcome and the scores of every example.

        `clean` is what `clean_side` found for the same attribution, so that several attacks share it.
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
            if self.pgd.steps or self.pgd.random_start:  # else nothing was tried, so no label was lost
                outcome[~attacked.found & (attacked.feasible == 0)] = Outcome.LABEL_LOST
            outcome[~active] = Outcome.NAN_MAP
            outcome[~clean.right] = Outcome.MISCLASSIFIED
            # a failed attack left the image alone: its map is the clean one, and every score that of no change
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
        )

    def _maps(self, model: Model, x: Tensor, y: Tensor, wanted: Tensor) -> Tensor:
        """Maps [B, H, W] of the wanted examples, zero for the others."""
        maps = x.new_zeros(x.shape[0], *x.shape[2:])
        if bool(wanted.any()):
            maps[wanted] = map_of(model, x[wanted], y[wanted], self.attribution).detach()
        return maps
