"""Several attacks on the same images, and for each image the worst result: what AutoAttack is for predictions.

A network that only resists one attack is seen through by the others; the result says which member did the damage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.attacks.explanation import SCORES, Before, ExplanationAttack, ExplanationResult, Outcome, Scores
from holdfast.errors import expected
from holdfast.ops import per_example
from holdfast.types import Known, Model


@dataclass(frozen=True)
class EnsembleResult(ExplanationResult):
    """The result of the most damaging member for each image, by Kendall's tau.

    `winner` [B] indexes `names`, -1 where no member succeeded; `members` holds every member's scores; `worst` takes
    each score from the member that hurt that score most, so its top-k and its Kendall may come from two images.
    """

    names: tuple[str, ...] = ()
    winner: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    members: tuple[ExplanationResult, ...] = ()

    @property
    def worst(self) -> Scores:
        """For each score separately the worst over all members: a lower bound no member choice can flatter."""
        columns = {name: torch.stack([getattr(m.scores, name) for m in self.members]) for name in SCORES}
        return Scores(**{n: c.amax(0) if n == "center_shift" else c.amin(0) for n, c in columns.items()})

    @property
    def wins(self) -> dict[str, int]:
        """On how many images each member did the most damage."""
        return {name: int((self.winner == i).sum()) for i, name in enumerate(self.names)}


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Run all `members` and keep, for each image, the one with the smallest Kendall's tau."""

    members: Mapping[str, ExplanationAttack]

    def __post_init__(self) -> None:
        if not self.members:
            raise expected("at least one member", got="none")

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images like x, each from the member that moved its map most."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> EnsembleResult:
        """The worst result for each image, with the member that won and all members' own results."""
        results = tuple(self._results(model, x, y, keys))
        best, winner = results[0], torch.where(results[0].outcome == Outcome.ATTACKED, 0, -1)
        for index, challenger in enumerate(results[1:], start=1):
            wins = _wins(challenger, best)
            best = _merge(wins, challenger, best)
            winner = torch.where(wins & (challenger.outcome == Outcome.ATTACKED), index, winner)
        return EnsembleResult(
            x_adv=best.x_adv,
            outcome=best.outcome,
            scores=best.scores,
            random_steps=torch.stack([r.random_steps for r in results]).sum(0),
            warnings=tuple(dict.fromkeys(w for r in results for w in r.warnings)),
            names=tuple(self.members),
            winner=winner,
            members=results,
        )

    def _results(self, model: Model, x: Tensor, y: Tensor, keys: Tensor) -> Iterator[ExplanationResult]:
        """Every member's result; members that explain alike share the clean maps."""
        seen: Known[Before] = Known()
        for member in self.members.values():
            before = seen.recall(member.attribution) or member.look(model, x, y)
            seen.remember(member.attribution, before)
            yield member.run(model, x, y, keys=keys, before=before)


def _wins(challenger: ExplanationResult, best: ExplanationResult) -> Tensor:
    """A success beats a failure; among successes the smaller Kendall's tau; among failures one that kept the label."""
    success, smaller = challenger.outcome == Outcome.ATTACKED, challenger.scores.kendall < best.scores.kendall
    kept_label = (challenger.outcome == Outcome.UNMOVED) & (best.outcome == Outcome.LABEL_LOST)
    return success & (smaller | (best.outcome != Outcome.ATTACKED)) | kept_label


def _merge(wins: Tensor, challenger: ExplanationResult, best: ExplanationResult) -> ExplanationResult:
    return ExplanationResult(
        x_adv=torch.where(per_example(wins, best.x_adv), challenger.x_adv, best.x_adv),
        outcome=torch.where(wins, challenger.outcome, best.outcome),
        scores=challenger.scores.where(wins, best.scores),
        random_steps=best.random_steps,
    )
