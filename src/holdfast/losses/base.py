"""A loss is one number an example, ascended in the input by attacks and descended in the weights by training.

    loss(model, Pair(x, x_adv, y)) -> [B]

What stays fixed during a search (the clean map, its top pixels) is computed once by `prepare` and handed back in as
`clean`; everything in it has the batch first, so an attack can drop examples from it. Losses compose: `a + 0.5 * b`;
the terms of a sum share what they have in common through a `LossContext`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.losses.context import LossContext, MapRequest
from holdfast.types import Model, Pair

Clean = Mapping[str, Any]
"""The clean side of a loss: tensors [B, ...], or nested mappings of them."""


class Loss(ABC):
    """One number an example, no reduction."""

    def __call__(self, model: Model, pair: Pair, clean: Clean | None = None) -> Tensor:
        """The loss of each example, [B], differentiable in `pair.x_adv` and in the weights."""
        return self.value(self.context(model, pair), self.prepare(model, pair) if clean is None else clean)

    def context(self, model: Model, pair: Pair) -> LossContext:
        """A fresh context that knows which maps this loss is going to request."""
        return LossContext(model, pair, self.requests)

    @abstractmethod
    def value(self, context: LossContext, clean: Clean) -> Tensor:
        """The loss [B], given the context and the clean side."""

    def prepare(self, model: Model, pair: Pair) -> Clean:
        """What a search computes once, from the clean image and the start `pair.x_adv`; nothing by default."""
        return {}

    def unchanged(self, clean: Clean) -> Tensor | None:
        """The value [B] at x' = x where the clean side tells it without a pass through the network; else None."""
        return None

    def for_rows(self, rows: Tensor) -> "Loss":
        """The same loss for some of the examples; only losses that hold something for each example differ."""
        return self

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        """The maps this loss asks its context for."""
        return ()

    @property
    def points(self) -> int:
        """Images that pass through the network for one example; tells an attack how much fits into memory."""
        return max([1, *(request.attribution.points for request in self.requests)])

    @property
    def second_order(self) -> bool:
        """Whether the value itself contains a gradient, so that the network must be differentiable twice."""
        return bool(self.requests)

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

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return self.first.value(context, clean["first"]) + self.second.value(context, clean["second"])

    def prepare(self, model: Model, pair: Pair) -> Clean:
        return {"first": self.first.prepare(model, pair), "second": self.second.prepare(model, pair)}

    def for_rows(self, rows: Tensor) -> Loss:
        return Sum(self.first.for_rows(rows), self.second.for_rows(rows))

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (*self.first.requests, *self.second.requests)

    @property
    def points(self) -> int:
        return max(self.first.points, self.second.points)

    @property
    def second_order(self) -> bool:
        return self.first.second_order or self.second.second_order


@dataclass(frozen=True)
class Scaled(Loss):
    """factor * a, example by example."""

    loss: Loss
    factor: float

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return self.factor * self.loss.value(context, clean)

    def prepare(self, model: Model, pair: Pair) -> Clean:
        return self.loss.prepare(model, pair)

    def for_rows(self, rows: Tensor) -> Loss:
        return Scaled(self.loss.for_rows(rows), self.factor)

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return self.loss.requests

    @property
    def points(self) -> int:
        return self.loss.points

    @property
    def second_order(self) -> bool:
        return self.loss.second_order


def select(clean: Clean, rows: Tensor | slice) -> Clean:
    """The clean side of some of the examples."""
    return {name: select(part, rows) if isinstance(part, Mapping) else part[rows] for name, part in clean.items()}
