"""Types shared by all packages: models, scores, attributions and image pairs.

B is the batch size. Images are float, NCHW, pixels in [0, 1], on one device; `y` is int64 [B]; `keys` is int64 [B].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from torch import Tensor

Value = TypeVar("Value")

Model = Callable[[Tensor], Tensor]
"""A callable that maps images [B, C, H, W] to logits [B, K]; always passed as an argument, never captured."""

Score = Callable[[Tensor, Tensor], Tensor]
"""The scalar to explain: `(logits [B, K], y [B]) -> [B]`."""

Target = tuple[Score, Tensor]
"""A score and the labels [B] it is evaluated for; several targets share one forward pass."""


class Attribution(Protocol):
    """A function that returns a map with the shape of x, differentiable to second order if `create_graph=True`."""

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor: ...


class MapCache(dict[Attribution, Value]):
    """Values keyed by attribution. An unhashable attribution (for example one that holds a list) is never cached."""

    def find(self, attribution: Attribution) -> Value | None:
        """The cached value, or None."""
        return self.get(attribution) if _is_hashable(attribution) else None

    def store(self, attribution: Attribution, value: Value) -> None:
        """Cache the value if the attribution is hashable."""
        if _is_hashable(attribution):
            self[attribution] = value

    def rows(self: "MapCache[Tensor]", rows: Tensor) -> "MapCache[Tensor]":
        """The cache restricted to some of the examples."""
        return MapCache({attribution: value[rows] for attribution, value in self.items()})


@dataclass(frozen=True)
class Pair:
    """A clean batch and its perturbed counterpart: the input of every loss.

    `maps` caches saliency maps [B, H, W] of the clean images, keyed by attribution. `keys` are the random keys [B] of
    the examples, for losses with a random part.

    >>> import torch
    >>> x = torch.rand(2, 1, 8, 8)
    >>> pair = Pair(x, (x + 0.1).clamp(0, 1), torch.tensor([3, 7]))
    """

    x: Tensor
    x_adv: Tensor
    y: Tensor
    maps: MapCache[Tensor] = field(default_factory=MapCache)
    keys: Tensor | None = None


def _is_hashable(thing: object) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True
