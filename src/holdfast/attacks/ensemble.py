"""Several attacks on the same images, with the worst result for each image, as AutoAttack does for predictions.

A network may resist one attack and fail against another. The result names the most damaging member.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball
from holdfast.attacks.base import (
    CleanSide,
    ExplanationAttack,
    ExplanationResult,
    Outcome,
    Scores,
    clean_side,
    worst_images,
)
from holdfast.engine.ops import per_example
from holdfast.errors import expected
from holdfast.metrics.registry import METRICS
from holdfast.types import Attribution, MapCache, Model


@dataclass(frozen=True)
class EnsembleResult(ExplanationResult):
    """The result of the most damaging member for each image, by Kendall's tau.

    `winner` [B] indexes `names`, -1 where no member succeeded. `members` holds the result of every member. `worst`
    takes each score from the member with the worst value, so its top-k and its Kendall may come from different
    perturbed images.
    """

    names: tuple[str, ...] = ()
    winner: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    members: tuple[ExplanationResult, ...] = ()

    @property
    def worst(self) -> Scores:
        """The worst value of each metric over all members, independent of the winner."""
        found = {name: torch.stack([member.scores[name] for member in self.members]) for name in self.scores}
        return Scores({n: v.amax(0) if METRICS[n].is_distance else v.amin(0) for n, v in found.items()})

    @property
    def reported_scores(self) -> Scores:
        return self.worst

    def images_of(self, metric: str) -> Tensor:
        return worst_images(metric, [(result.x_adv, result.scores) for result in (self, *self.members)])

    @property
    def wins(self) -> dict[str, int]:
        """Number of images on which each member did the most damage."""
        return {name: int((self.winner == i).sum()) for i, name in enumerate(self.names)}

    @property
    def winner_names(self) -> list[str]:
        return [self.names[i] if i >= 0 else "" for i in self.winner.tolist()]


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Run all `members` and keep, for each image, the result with the smallest Kendall's tau."""

    members: Mapping[str, ExplanationAttack]

    def __post_init__(self) -> None:
        if not self.members:
            raise expected("at least one member", got="none")

    @property
    def _first(self) -> ExplanationAttack:
        return next(iter(self.members.values()))

    @property
    def attribution(self) -> Attribution:
        """The map of the first member."""
        return self._first.attribution

    @property
    def eval_k(self) -> int:
        """The k of the reported top-k intersection."""
        return self._first.eval_k

    @property
    def ball(self) -> Ball | None:
        """The threat model of the first member."""
        return self._first.ball

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images shaped like x, each from the member that changed its map most."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, clean: CleanSide | None = None
    ) -> EnsembleResult:
        """The worst result for each image, with the winning member and the results of all members.

        Members with the same attribution share the clean side. `clean` is the clean side for the first member's
        attribution.
        """
        sides: MapCache[CleanSide] = MapCache()
        if clean is not None:
            sides.store(self.attribution, clean)
        results = []
        for member in self.members.values():
            side = sides.find(member.attribution) or clean_side(model, x, y, member.attribution)
            sides.store(member.attribution, side)
            results.append(member.run(model, x, y, keys=keys, clean=side))
        best, winner = results[0], torch.where(results[0].outcome == Outcome.ATTACKED, 0, -1)
        for index, challenger in enumerate(results[1:], start=1):
            wins = _wins(challenger, best)
            best = _merge(wins, challenger, best)
            winner = torch.where(wins & (challenger.outcome == Outcome.ATTACKED), index, winner)
        return EnsembleResult(
            x_adv=best.x_adv,
            outcome=best.outcome,
            scores=best.scores,
            steps=torch.stack([r.steps for r in results]).sum(0),
            random_steps=torch.stack([r.random_steps for r in results]).sum(0),
            notes=tuple(dict.fromkeys(note for r in results for note in r.notes)),
            names=tuple(self.members),
            winner=winner,
            members=tuple(results),
        )


def _wins(challenger: ExplanationResult, best: ExplanationResult) -> Tensor:
    """bool [B]: success wins over failure, then the smaller Kendall's tau; among failures, one that kept the label."""
    success, smaller = challenger.outcome == Outcome.ATTACKED, challenger.scores["kendall"] < best.scores["kendall"]
    kept_label = (challenger.outcome == Outcome.UNMOVED) & (best.outcome == Outcome.LABEL_LOST)
    return success & (smaller | (best.outcome != Outcome.ATTACKED)) | kept_label


def _merge(wins: Tensor, challenger: ExplanationResult, best: ExplanationResult) -> ExplanationResult:
    return ExplanationResult(
        x_adv=torch.where(per_example(wins, best.x_adv), challenger.x_adv, best.x_adv),
        outcome=torch.where(wins, challenger.outcome, best.outcome),
        scores=challenger.scores.where(wins, best.scores),
        steps=best.steps,
        random_steps=best.random_steps,
    )
