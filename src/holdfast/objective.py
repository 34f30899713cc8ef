"""What training minimises: a model, a loss and the attack that finds x', as one module.

    objective(x, y, keys) -> total and every named part

It is an `nn.Module` so that DistributedDataParallel can wrap it as a whole, and so that an own training loop needs
nothing but `objective(x, y, keys).total.backward()`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from holdfast.attacks.pgd import PGD
from holdfast.errors import expected
from holdfast.losses.base import Loss
from holdfast.meter import metered
from holdfast.sliced import summed
from holdfast.types import Pair


@dataclass(frozen=True)
class Term:
    """A loss and the attack that finds its x'; without an attack x' = x. `name` tells its parts from another term's."""

    loss: Loss
    attack: PGD | None = None
    name: str = ""


@dataclass(frozen=True)
class ObjectiveOutput:
    """The total to descend, and its named parts as detached means over the batch, for the log."""

    total: Tensor
    parts: dict[str, Tensor]


class Objective(nn.Module):
    """The mean (or sum, as in the released code) over the batch of the losses of all `terms`.

    `budget` in [0, 1] scales radius and step of every attack, so that a trainer can warm the budget up from 0.
    `example_passes` counts what has been spent so far.
    """

    def __init__(self, model: nn.Module, terms: Sequence[Term], *, reduction: str = "mean", name: str = "") -> None:
        super().__init__()
        if not terms:
            raise expected("at least one term", got="none")
        if reduction not in ("mean", "sum"):
            raise expected("reduction = 'mean' or 'sum'", got=repr(reduction))
        self.model = model
        self.terms = tuple(terms)
        self.reduction = reduction
        self.name = name
        self.budget = 1.0
        self.example_passes = 0

    def forward(self, x: Tensor, y: Tensor, keys: Tensor) -> ObjectiveOutput:
        """Find x' for every term, evaluate the losses, reduce."""
        with metered() as meter:
            values, parts = zip(*(self._evaluate(term, x, y, keys) for term in self.terms), strict=True)
        self.example_passes += meter.passes
        total = torch.stack(values).sum()
        total = total / len(y) if self.reduction == "mean" else total
        merged = {name: value.mean() for part in parts for name, value in part.items()}
        return ObjectiveOutput(total, {"total": total.detach()} | merged)

    def _evaluate(self, term: Term, x: Tensor, y: Tensor, keys: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        pair = Pair(x, self._attacked(term.attack, x, y, keys), y)
        value, parts = summed(term.loss, self.model, pair)
        prefix = f"{term.name}/" if term.name else ""
        return value, {prefix + part: v for part, v in parts.items()}

    def _attacked(self, attack: PGD | None, x: Tensor, y: Tensor, keys: Tensor) -> Tensor:
        if attack is None:
            return x
        if self.budget < 1.0:
            attack = replace(attack, ball=attack.ball.scaled(self.budget), step_size=attack.step_size * self.budget)
        return attack(self.model, x, y, keys=keys)

    def extra_repr(self) -> str:
        return f"{self.name}, terms={self.terms}, reduction={self.reduction!r}"
