"""A loss is one number an example, ascended in the input by attacks and descended in the weights by training.

    loss(model, Pair(x, x_adv, y)) -> [B]

What depends on the clean image alone (its map, its top pixels) is computed once by `prepare` and handed back in as
`clean`; everything in it has the batch first, so an attack can drop examples from it. Losses compose: `a + 0.5 * b`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.types import Model, Pair

Clean = Mapping[str, Any]
"""The clean side of a loss: tensors [B, ...], or nested mappings of them."""


class Loss(ABC):
    """One number an example, no reduction."""

    def __call__(self, model: Model, pair: Pair, clean: Clean | None = None) -> Tensor:
        """The loss of each example, [B], differentiable in `pair.x_adv` and in the weights."""
        return self.value(model, pair, self.prepare(model, pair.x, pair.y) if clean is None else clean)

    @abstractmethod
    def value(self, model: Model, pair: Pair, clean: Clean) -> Tensor:
        """The loss [B], given the clean side."""

    def prepare(self, model: Model, x: Tensor, y: Tensor) -> Clean:
        """What depends on the clean image alone; nothing by default."""
        return {}

    @property
    def points(self) -> int:
        """Images that pass through the network for one example; tells an attack how much fits into memory."""
        return 1

    @property
    def second_order(self) -> bool:
        """Whether the value itself contains a gradient, so that the network must be differentiable twice."""
        return False

    def __add__(self, other: "Loss") -> "Loss":
        return Sum(self, other)

    def __mul__(self, factor: float) -> "Loss":
        return Scaled(self, factor)

    def __rmul__(self, factor: float) -> "Loss":
        return Scaled(self, factor)

    def __neg__(self) -> "Loss":
        return Scaled(self, -1.0)

    def __sub__(self, other: "Loss") -> "Loss":
        return Sum(self, Scaled(other, -1.0))


@dataclass(frozen=True)
class Sum(Loss):
    """a + b, example by example."""

    first: Loss
    second: Loss

    def value(self, model: Model, pair: Pair, clean: Clean) -> Tensor:
        return self.first.value(model, pair, clean["first"]) + self.second.value(model, pair, clean["second"])

    def prepare(self, model: Model, x: Tensor, y: Tensor) -> Clean:
        return {"first": self.first.prepare(model, x, y), "second": self.second.prepare(model, x, y)}

    @property
    def points(self) -> int:
        return self.first.points + self.second.points

    @property
    def second_order(self) -> bool:
        return self.first.second_order or self.second.second_order


@dataclass(frozen=True)
class Scaled(Loss):
    """factor * a, example by example."""

    loss: Loss
    factor: float

    def value(self, model: Model, pair: Pair, clean: Clean) -> Tensor:
        return self.factor * self.loss.value(model, pair, clean)

    def prepare(self, model: Model, x: Tensor, y: Tensor) -> Clean:
        return self.loss.prepare(model, x, y)

    @property
    def points(self) -> int:
        return self.loss.points

    @property
    def second_order(self) -> bool:
        return self.loss.second_order


def select(clean: Clean, rows: Tensor | slice) -> Clean:
    """The clean side of some of the examples."""
    return {name: select(part, rows) if isinstance(part, Mapping) else part[rows] for name, part in clean.items()}
