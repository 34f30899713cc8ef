"""Smooth substitutes of the rank metrics, for searches: top-k intersection and Kendall's tau on log maps.

Ranks do not change under a logarithm, and on the logarithm a pixel of any size has a gradient. Both losses have a width
that a search narrows as it goes on: `at(progress, step)` returns the loss for one step.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

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

    Pairs that are tied in the clean map count as zero, as in Kendall's tau-b.

    Only pairs whose current levels are near can be reversed; the tanh of the others has no slope. So most of the pairs
    that a step takes are near in the *current* order. The distances in that order, 1 to H W - 1, are divided into bands
    whose widths grow geometrically. A step takes all pairs at one distance of each band, and these stand for the whole
    band; over the steps the distances cover the bands evenly. With many `bands` every step takes all pairs.
    """

    wide: float = 0.5
    narrow: float = 0.1
    bands: int = 40

    def remember(self, clean_map: Tensor) -> Clean:
        return {"values": flatten(clean_map)}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        level = torch.log(flatten(shown) + KENDALL_FLOOR)
        order = level.detach().argsort(1)
        level, values = level.gather(1, order), clean["values"].gather(1, order)
        pixels, total = level.shape[1], level.new_zeros(level.shape[0])
        edges = sorted({round(pixels ** (number / self.bands)) for number in range(self.bands + 1)})
        for number, (first, after) in enumerate(pairwise(edges)):
            apart = first + int((0.5 + (self.step + 7 * number) * GOLDEN) % 1 * (after - first))
            agrees = torch.sign(values[:, apart:] - values[:, :-apart])
            pairs = agrees * torch.tanh((level[:, apart:] - level[:, :-apart]) / self.width)
            total = total + (after - first) * pairs.sum(1)
        return -total / max(1, pixels * (pixels - 1) // 2)
