"""Smooth substitutes of the rank metrics, for searches: top-k intersection and Kendall's tau on log maps.

Ranks do not change under a logarithm, and on the logarithm a pixel of any size has a gradient. Both losses have a width
that a search narrows as it goes on: `at(progress, step)` returns the loss for one step.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attribution.quadrature import GOLDEN
from holdfast.engine.ops import flatten
from holdfast.losses.base import Clean
from holdfast.losses.map_distance import MapLoss
from holdfast.metrics.top_k import top_k_mask

TOP_K_FLOOR, KENDALL_FLOOR = 1e-3, 0.3
"""Added to a map (of mean 1) before the logarithm. Kendall's tau counts all pairs of pixels alike; with a small floor a
search would mostly order the many pixels that are almost zero."""


@dataclass(frozen=True, kw_only=True)
class AnnealedLoss(MapLoss):
    """A loss of the map whose width shrinks geometrically from `wide` to `narrow` during a search."""

    wide: float
    narrow: float
    progress: float = 0.0
    step: int = 0

    @property
    def width(self) -> float:
        """The width at the current progress."""
        return float(self.wide * (self.narrow / self.wide) ** self.progress)

    def at(self, progress: float, step: int) -> "AnnealedLoss":
        """The loss for one step; `progress` goes from 0 to 1."""
        return replace(self, progress=progress, step=step)


@dataclass(frozen=True, kw_only=True)
class LogTopK(AnnealedLoss):
    """Soft number of pixels outside the clean top-k that are in the top-k now, minus those of the clean top-k.

    With l the log map and t its k-th largest value, treated as a constant:

        sum_{i not in T} sigmoid((l_i - t) / w) - sum_{i in T} sigmoid((l_i - t) / w),    T = clean top-k

    so the loss lifts the runners-up while it lowers the top.
    """

    k: int
    wide: float = 0.5
    narrow: float = 0.05

    def remember(self, clean_map: Tensor) -> Clean:
        return {"inside": top_k_mask(clean_map, self.k)}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        level = torch.log(flatten(shown) + TOP_K_FLOOR)
        threshold = level.detach().topk(self.k, dim=1).values[:, -1:]
        above = torch.sigmoid((level - threshold) / self.width)
        inside: Tensor = clean["inside"]
        return above.sum(1) - 2 * (above * inside).sum(1)


@dataclass(frozen=True, kw_only=True)
class SoftKendall(AnnealedLoss):
    """Minus the mean over pairs of pixels of sign(a_i - a_j) tanh((l_i - l_j) / w), l the log map, a the clean map.

    Each step uses `offsets` times H W of the pairs: a pixel is compared with those that are some ranks below it in the
    clean map, and over the steps the distances in rank cover all pairs evenly. Pairs that are tied in the clean map
    count as zero, as in Kendall's tau-b.
    """

    wide: float = 0.5
    narrow: float = 0.1
    offsets: int = 16

    def remember(self, clean_map: Tensor) -> Clean:
        values, order = flatten(clean_map).sort(dim=1, descending=True)
        return {"order": order, "values": values}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        level = torch.log(flatten(shown) + KENDALL_FLOOR).gather(1, clean["order"])
        values, pixels = clean["values"], level.shape[1]
        first = self.step * self.offsets
        total = level.new_zeros(level.shape[0])
        for number in range(first, first + self.offsets):
            shift = 1 + int((0.5 + number * GOLDEN) % 1 * (pixels - 1)) if pixels > 1 else 0
            order = torch.sign(values - values.roll(-shift, 1))
            total = total + (order * torch.tanh((level - level.roll(-shift, 1)) / self.width)).mean(1)
        return -total / self.offsets
