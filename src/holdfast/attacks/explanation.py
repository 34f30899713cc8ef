"""An attack on explanations with its book-keeping: who could be attacked, what came of it, how much the map moved."""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import torch
from torch import Tensor

from holdfast import metrics
from holdfast.attacks.batch import predictions
from holdfast.attacks.pgd import PGD
from holdfast.attribution.engine import images_per_pass
from holdfast.checks import check_images, check_labels
from holdfast.errors import expected
from holdfast.losses.maps import NoDirection, map_of
from holdfast.models.double_backward import require_second_order
from holdfast.models.modes import evaluating
from holdfast.types import Attribution, Known, Model


class Outcome(IntEnum):
    """What became of an example; every example has exactly one, so nothing is left out in silence."""

    ATTACKED = 0
    """An iterate with the label kept and a changed map was found."""
    MISCLASSIFIED = 1
    """The clean image is not predicted as y: skipped, no scores."""
    LABEL_LOST = 2
    """No iterate kept the label: counts as (1, 1, 1) under the reference protocol."""
    UNMOVED = 3
    """The label was kept but no iterate had a smaller Kendall's tau than 1: counts as (1, 1, 1) too."""
    NAN_MAP = 4
    """The clean map is constant or not finite, so nothing can be ranked: skipped, no scores."""


MAX_ZERO_GRADIENTS = 0.05
"""More than this share of steps without a gradient: the loss is flat for the attack."""

SCORES = ("top_k", "kendall", "spearman", "cosine", "center_shift")


@dataclass(frozen=True)
class Scores:
    """Agreement of the clean and the perturbed map, float64 [B]; NaN for examples that were skipped."""

    top_k: Tensor
    kendall: Tensor
    spearman: Tensor
    cosine: Tensor
    center_shift: Tensor

    def where(self, mask: Tensor, other: "Scores") -> "Scores":
        """These scores where `mask` [B], the other's elsewhere."""
        return Scores(*(torch.where(mask, getattr(self, name), getattr(other, name)) for name in SCORES))


@dataclass(frozen=True)
class ExplanationResult:
    """Perturbed images, outcomes and scores of a batch, one entry an example, and warnings about the attack itself."""

    x_adv: Tensor
    outcome: Tensor
    scores: Scores
    random_steps: Tensor
    warnings: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many examples had each outcome."""
        tally = Counter(self.outcome.tolist())
        return {outcome.name.lower(): tally[int(outcome)] for outcome in Outcome}


@dataclass(frozen=True)
class Before:
    """The clean side of an attack: bool [B], predicted right, and maps [B, H, W], zero for the others."""

    right: Tensor
    maps: Tensor


@dataclass(frozen=True, kw_only=True)
class ExplanationAttack:
    """Run `pgd` on the examples that can be attacked and score the maps of `attribution` before and after.

    `eval_k` is the k of the reported top-k intersection, which need not be the k that was attacked.
    """

    pgd: PGD
    attribution: Attribution
    eval_k: int

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images like x; the clean image wherever the attack failed or was not possible."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, before: "Before | None" = None
    ) -> ExplanationResult:
        """The perturbed images with the outcome and the scores of every example.

        `before` is what `look` of an attack with the same attribution found, so that several attacks share it.
        """
        check_images(x)
        check_labels(y, x.shape[0])
        pixels = x.shape[2] * x.shape[3]
        if not 1 <= self.eval_k <= pixels:
            raise expected(f"1 <= k <= {pixels}, the number of entries of a map", got=f"eval_k = {self.eval_k}")
        with evaluating(model):
            if self.pgd.loss.second_order and x.shape[0]:
                require_second_order(model, x[:1])
            return self._run(model, x.detach(), y, keys, before or self.look(model, x.detach(), y))

    def look(self, model: Model, x: Tensor, y: Tensor) -> "Before":
        """Which clean images are predicted right, and their maps."""
        check_images(x)
        check_labels(y, x.shape[0])
        with evaluating(model):
            right = _right(model, x, y)
            return Before(right, self._maps(model, x, y, right))

    def _run(self, model: Model, x: Tensor, y: Tensor, keys: Tensor, before: "Before") -> ExplanationResult:
        right, clean_map = before.right, before.maps
        active = right & metrics.has_ranking(clean_map)
        known: Known[Tensor] = Known()
        known.remember(self.attribution, clean_map)
        attacked = self.pgd.run(model, x, y, keys=keys, active=active, maps=known)
        outcome = torch.full_like(y, Outcome.ATTACKED)
        outcome[~attacked.found] = Outcome.UNMOVED
        if self.pgd.steps or self.pgd.random_start:  # else nothing was tried, so no label was lost
            outcome[~attacked.found & (attacked.feasible == 0)] = Outcome.LABEL_LOST
        outcome[~active] = Outcome.NAN_MAP
        outcome[~right] = Outcome.MISCLASSIFIED
        # a failed attack left the image alone: its map is the clean one, and every score is exactly that of no change
        judged = attacked.maps.recall(self.attribution)
        shown = self._maps(model, attacked.x_adv, y, attacked.found) if judged is None else judged
        moved = torch.where(attacked.found[:, None, None], shown, clean_map)
        return ExplanationResult(
            x_adv=attacked.x_adv,
            outcome=outcome,
            scores=compare(clean_map, moved, self.eval_k, valid=active),
            random_steps=attacked.random_steps,
            warnings=self._warnings(int(attacked.random_steps.sum()), int(active.sum())),
        )

    def _warnings(self, random_steps: int, attacked: int) -> tuple[str, ...]:
        """What the search itself shows about its own blindness; `diagnose` looks deeper."""
        steps = attacked * self.pgd.steps * self.pgd.restarts
        if isinstance(self.pgd.loss, NoDirection) or not steps or random_steps / steps <= MAX_ZERO_GRADIENTS:
            return ()
        return (f"{random_steps / steps:.0%} of the steps had no gradient anywhere and were taken at random",)

    def _maps(self, model: Model, x: Tensor, y: Tensor, wanted: Tensor) -> Tensor:
        """Maps [B, H, W] of the wanted examples, zero for the others."""
        maps = x.new_zeros(x.shape[0], *x.shape[2:])
        if bool(wanted.any()):
            maps[wanted] = map_of(model, x[wanted], y[wanted], self.attribution).detach()
        return maps


def compare(clean: Tensor, moved: Tensor, k: int, *, valid: Tensor) -> Scores:
    """All scores of two batches of maps [B, H, W]; NaN where not `valid` [B]."""
    values = (
        metrics.top_k_intersection(clean, moved, k),
        metrics.kendall_tau(clean, moved),
        metrics.spearman_rho(clean, moved),
        metrics.cosine_similarity(clean, moved),
        metrics.center_shift(clean, moved),
    )
    return Scores(*(torch.where(valid, value, torch.nan) for value in values))


def _right(model: Model, x: Tensor, y: Tensor) -> Tensor:
    found = predictions(model, x, images_per_pass(x), check=True) if x.shape[0] else None
    if found is None:
        return torch.zeros_like(y, dtype=torch.bool)
    check_labels(y, x.shape[0], found.classes)
    return found.labels == y
