"""A loss returns one number per example. Attacks ascend it in the input; training descends it in the weights.

    loss(model, Pair(x, x_adv, y)) -> [B]

`prepare` computes once what stays fixed during a search (the clean map, its top pixels); it is passed back as `clean`.
All its tensors have the batch as first dimension, so an attack can drop examples from it. Losses compose:
`a + 0.5 * b`. The terms of a sum share maps and logits through a `LossContext`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.losses.context import LossContext, MapRequest
from holdfast.types import Model, Pair

Clean = Mapping[str, Any]
"""The clean side of a loss: tensors [B, ...] or nested mappings of them."""


class Loss(ABC):
    """A loss with one number per example, without reduction."""

    def __call__(self, model: Model, pair: Pair, clean: Clean | None = None) -> Tensor:
        """The loss of each example, [B], differentiable in `pair.x_adv` and in the weights."""
        return self.value(self.context(model, pair), self.prepare(model, pair) if clean is None else clean)

    def context(self, model: Model, pair: Pair) -> LossContext:
        """A new context that knows which maps this loss requests."""
        return LossContext(model, pair, self.requests)

    @abstractmethod
    def value(self, context: LossContext, clean: Clean) -> Tensor:
        """The loss [B], given the context and the clean side."""

    def prepare(self, model: Model, pair: Pair) -> Clean:
        """What a search computes once, from the clean image and the start `pair.x_adv`; empty by default."""
        return {}

    def unchanged(self, clean: Clean) -> Tensor | None:
        """The value [B] at x' = x if the clean side determines it without a forward pass; else None."""
        return None

    def for_rows(self, rows: Tensor) -> "Loss":
        """The same loss for a subset of the examples; differs only for losses that hold data per example."""
        return self

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        """The maps that this loss requests from its context."""
        return ()

    @property
    def points(self) -> int:
        """Images per example that pass through the network; attacks use it to choose a chunk that fits into memory."""
        return max([1, *(request.attribution.points for request in self.requests)])

    @property
    def second_order(self) -> bool:
        """Whether the value contains a gradient, so that the network must be twice differentiable."""
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
    """a + b, per example."""

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
    """factor * a, per example."""

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
    """The clean side of a subset of the examples."""
    return {name: select(part, rows) if isinstance(part, Mapping) else part[rows] for name, part in clean.items()}
