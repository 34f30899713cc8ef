"""The interface of attacks on explanations: protocol, outcomes, scores and the clean side.

An attack has an `attribution` (the map it attacks), a `ball` (the threat model, None for no bound), an `eval_k` and
`run`. Any object with these can be evaluated, audited and reported: gradient searches, gradient-free searches,
universal perturbations, manipulation towards a target map. For attacks that only propose images, `ProposalAttack`
computes outcomes and scores.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball
from holdfast.attribution.saliency import saliency_map
from holdfast.engine.checks import check_images, check_labels
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.errors import expected
from holdfast.metrics.registry import METRICS
from holdfast.runs.summary import random_step_warnings
from holdfast.types import Attribution, Model


class Outcome(IntEnum):
    """The outcome of an attack on one example; every example has exactly one."""

    ATTACKED = 0
    """An iterate with the same label and a changed map was found."""
    MISCLASSIFIED = 1
    """The clean image is not classified as y: skipped, no scores."""
    LABEL_LOST = 2
    """No iterate kept the label: scores count as (1, 1, 1) under the reference protocol."""
    UNMOVED = 3
    """The label was kept, but no iterate had a Kendall's tau below 1: scores count as (1, 1, 1) too."""
    NAN_MAP = 4
    """The clean map is constant or not finite, so it has no ranking: skipped, no scores."""


class Scores(Mapping[str, Tensor]):
    """Agreement of the clean and the perturbed map, one float64 tensor [B] per metric; NaN for skipped examples.

    The metrics are those of the registry: `scores["kendall"]` or `scores.kendall`.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Tensor:
        return self._values[name]

    def __getattr__(self, name: str) -> Tensor:
        if name == "_values" or name not in self._values:  # `_values` is missing during unpickling
            raise AttributeError(f"no metric {name!r}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def where(self, mask: Tensor, other: "Scores") -> "Scores":
        """These scores where `mask` [B] is true, those of `other` elsewhere."""
        return Scores({name: torch.where(mask, value, other[name]) for name, value in self.items()})


@dataclass(frozen=True)
class CleanSide:
    """Predictions and maps of the clean images, which several attacks can share.

    `right` bool [B]: classified as y. `maps` [B, H, W]: saliency maps, zero where the prediction is wrong. `gap` [B]:
    the completeness gap, NaN where it was not computed.
    """

    right: Tensor
    maps: Tensor
    gap: Tensor


@dataclass(frozen=True)
class ExplanationResult:
    """Perturbed images, outcomes and scores, one entry per example, and notes of the attack.

    `steps` counts the steps of the search, `random_steps` those with a gradient of zero.
    """

    x_adv: Tensor
    outcome: Tensor
    scores: Scores
    steps: Tensor
    random_steps: Tensor
    notes: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of examples per outcome."""
        tally = Counter(self.outcome.tolist())
        return {outcome.name.lower(): tally[int(outcome)] for outcome in Outcome}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the search; `diagnose` runs more checks."""
        steps = int(self.steps.sum())
        return (*self.notes, *random_step_warnings(int(self.random_steps.sum()) / steps if steps else None))

    @property
    def reported_scores(self) -> Scores:
        """The scores that are written to rows and tables."""
        return self.scores

    def images_of(self, metric: str) -> Tensor:
        """The perturbed images that the reported scores of a metric come from."""
        return self.x_adv

    @property
    def winner_names(self) -> list[str]:
        """The most damaging ensemble member for each example; empty strings for an attack without members."""
        return [""] * len(self.outcome)


class ExplanationAttack(Protocol):
    """An attack on explanations: its settings, and a `run` that returns images with outcomes and scores."""

    @property
    def attribution(self) -> Attribution: ...
    @property
    def ball(self) -> Ball | None: ...
    @property
    def eval_k(self) -> int: ...
    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor: ...
    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, clean: CleanSide | None = None
    ) -> ExplanationResult: ...


def clean_side(model: Model, x: Tensor, y: Tensor, attribution: Attribution, *, with_gap: bool = False) -> CleanSide:
    """Which clean images are classified correctly, their maps, and with `with_gap` the completeness gap of each map."""
    check_images(x)
    check_labels(y, x.shape[0])
    with evaluating(model):
        right = _right(model, x, y)
        maps, gap = x.new_zeros(x.shape[0], *x.shape[2:]), x.new_full((x.shape[0],), torch.nan)
        if bool(right.any()):
            some, labels = x[right], y[right]
            found = attribution(model, some, labels).detach()
            maps[right] = saliency_map(found)
            measure = getattr(attribution, "completeness_gap", None) if with_gap else None
            value = measure(model, some, labels, found) if measure is not None else None
            if value is not None:
                gap[right] = value
    return CleanSide(right, maps, gap)


def compare(clean: Tensor, moved: Tensor, k: int, *, valid: Tensor) -> Scores:
    """Every registered metric between two batches of maps [B, H, W]; NaN where `valid` [B] is false."""
    found = {name: metric(clean, moved, k=k) for name, metric in METRICS.items()}
    return Scores({name: torch.where(valid, value, torch.nan) for name, value in found.items()})


def worst_images(metric: str, found: Sequence[tuple[Tensor, Scores]]) -> Tensor:
    """Of several images per example with their scores, those with the worst value of a metric, the first of equals."""
    values = torch.stack([scores[metric] for _, scores in found])
    chosen = values.argmax(0) if METRICS[metric].is_distance else values.argmin(0)
    return torch.stack([images for images, _ in found])[chosen, torch.arange(len(chosen), device=chosen.device)]


def stand_in_notes(stand_in: Attribution | None) -> tuple[str, ...]:
    """What a result notes if its search ascended the map `stand_in` in place of the map that it scores."""
    if stand_in is None:
        return ()
    name = type(stand_in).__name__
    return (f"the search ascended {name} in place of the scored map, which has no second derivative",)


def check_eval_k(eval_k: int, x: Tensor) -> None:
    """Raise if `eval_k` exceeds the number of pixels of the maps of x, or is below 1."""
    pixels = x.shape[2] * x.shape[3]
    if not 1 <= eval_k <= pixels:
        raise expected(f"1 <= k <= {pixels}, the number of entries of a map", got=f"eval_k = {eval_k}")


def _right(model: Model, x: Tensor, y: Tensor) -> Tensor:
    if not x.shape[0]:
        return torch.zeros_like(y, dtype=torch.bool)
    found = predictions(model, x, images_per_pass(x), check=True)
    check_labels(y, x.shape[0], found.classes)
    return found.labels == y
