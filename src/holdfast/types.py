"""The few shapes that all layers agree on: scores, attributions and pairs of images.

B is the batch. Images are float, NCHW, pixels in [0, 1], on one device; `y` is int64 [B]; `keys` is int64 [B].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from torch import Tensor

Value = TypeVar("Value")

Model = Callable[[Tensor], Tensor]
"""Anything that maps images [B, C, H, W] to logits [B, K]; always an argument, never captured."""

Score = Callable[[Tensor, Tensor], Tensor]
"""The explained scalar: `(logits [B, K], y [B]) -> [B]`."""


@dataclass(frozen=True)
class Pair:
    """A clean batch and its perturbed twin; what every loss looks at.

    `maps` holds saliency maps [B, H, W] of the clean images that are known already, by their attribution.
    """

    x: Tensor
    x_adv: Tensor
    y: Tensor
    maps: "Known[Tensor]" = field(default_factory=lambda: Known())


class Attribution(Protocol):
    """A map of the input, of the input's shape, differentiable to second order with `create_graph=True`."""

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor: ...


class Known(dict[Attribution, Value]):
    """What is known already, by attribution; nothing is ever known of one that cannot be a key (with a list inside)."""

    def recall(self, attribution: Attribution) -> Value | None:
        """What was remembered, or None."""
        return self.get(attribution) if _can_be_key(attribution) else None

    def remember(self, attribution: Attribution, value: Value) -> None:
        """Keep it, if the attribution can be found again."""
        if _can_be_key(attribution):
            self[attribution] = value

    def at(self: "Known[Tensor]", rows: Tensor) -> "Known[Tensor]":
        """The same of some of the examples."""
        return Known({attribution: value[rows] for attribution, value in self.items()})


def _can_be_key(thing: object) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True
