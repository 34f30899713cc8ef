"""The few shapes that all rooms agree on: models, scores, attributions and pairs of images.

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

Target = tuple[Score, Tensor]
"""A score and the labels [B] it is asked for; several targets share one forward pass."""


class Attribution(Protocol):
    """A map of the input, of the input's shape, differentiable to second order with `create_graph=True`."""

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor: ...


class MapCache(dict[Attribution, Value]):
    """Values by attribution. An attribution that cannot be a dictionary key (it holds a list) is never cached."""

    def find(self, attribution: Attribution) -> Value | None:
        """The cached value, or None."""
        return self.get(attribution) if _is_hashable(attribution) else None

    def store(self, attribution: Attribution, value: Value) -> None:
        """Cache the value, if the attribution can be found again."""
        if _is_hashable(attribution):
            self[attribution] = value

    def rows(self: "MapCache[Tensor]", rows: Tensor) -> "MapCache[Tensor]":
        """The same cache for some of the examples."""
        return MapCache({attribution: value[rows] for attribution, value in self.items()})


@dataclass(frozen=True)
class Pair:
    """A clean batch and its perturbed counterpart: the input of every loss.

    `maps` caches saliency maps [B, H, W] of the clean images, by their attribution.

    >>> import torch
    >>> x = torch.rand(2, 1, 8, 8)
    >>> pair = Pair(x, (x + 0.1).clamp(0, 1), torch.tensor([3, 7]))
    """

    x: Tensor
    x_adv: Tensor
    y: Tensor
    maps: MapCache[Tensor] = field(default_factory=MapCache)


def _is_hashable(thing: object) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True
