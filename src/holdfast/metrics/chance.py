"""Chance: the value that a metric takes on average for two independent random maps of H x W pixels.

A number above chance is needed before a metric says anything: on 28 x 28 pixels, LENS-recall of two random sets of 100
pixels is 0.69. Where a closed form exists it is used, and otherwise a simulation with fixed keys. Nothing in here
depends on a network.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from holdfast.errors import expected

if TYPE_CHECKING:
    from torch import Tensor


def top_k(height: int, width: int, k: int) -> float:
    """Top-k intersection of two random sets: k / (H W).

    >>> top_k(10, 10, k=20)
    0.2
    """
    _check(height, width, k)
    return k / (height * width)


def lens(height: int, width: int, k: int, radius: int = 1) -> float:
    """LENS-recall and LENS-precision of two random sets; both have the same value.

    A pixel with a window of n pixels is not near a random set of size k with probability C(P - n, k) / C(P, k), where
    P = H W; the value is one minus the mean of this over all pixels.

    >>> round(lens(28, 28, k=100), 3)
    0.688
    """
    _check(height, width, k)
    if radius < 0:
        raise expected("radius >= 0", got=radius)
    pixels = height * width
    away = sum(
        _no_hit(pixels, rows * columns, k) for rows in _sides(height, radius) for columns in _sides(width, radius)
    )
    return 1 - away / pixels


@cache
def top_k_div(height: int, width: int, k: int, radius: int = 1, pool: int | None = None) -> float:
    """`top_k_div` of two random maps, simulated.

    >>> 0 < top_k_div(8, 8, k=12) < 1
    True
    """
    from holdfast.metrics.diverse_top_k import top_k_div as metric

    return simulated(lambda a, b: metric(a, b, k, radius, pool), height, width)


@cache
def lens_div(height: int, width: int, k: int, radius: int = 1, pool: int | None = None) -> float:
    """`lens_recall_div` and `lens_precision_div` of two random maps, simulated.

    >>> lens_div(8, 8, k=12) > top_k_div(8, 8, k=12)
    True
    """
    from holdfast.metrics.diverse_top_k import lens_recall_div as metric

    return simulated(lambda a, b: metric(a, b, k, radius, pool), height, width)


def zero(height: int, width: int, k: int) -> float:
    """Rank and linear correlations of two random maps: 0."""
    return 0.0


def simulated(
    metric: "Callable[[Tensor, Tensor], Tensor]", height: int, width: int, *, pairs: int = 1000, seed: int = 0
) -> float:
    """The mean of `metric` over pairs of maps with independent uniform pixels; the same for the same arguments.

    >>> from holdfast.metrics import top_k_intersection
    >>> abs(simulated(lambda a, b: top_k_intersection(a, b, k=20), 10, 10) - 0.2) < 0.01
    True
    """
    import torch

    from holdfast import rng

    keys = rng.make_keys(seed, torch.arange(2 * pairs))
    total, at_once = 0.0, max(1, 2**20 // (height * width))
    for start in range(0, pairs, at_once):
        few = keys[2 * start : 2 * (start + at_once)]
        maps = rng.uniform(few, torch.empty(len(few), height, width))
        total += float(metric(maps[0::2], maps[1::2]).sum())
    return total / pairs


def _sides(length: int, radius: int) -> list[int]:
    """Number of pixels of the window around each position of a line of `length` pixels."""
    return [min(at + radius, length - 1) - max(at - radius, 0) + 1 for at in range(length)]


@cache
def _no_hit(pixels: int, window: int, k: int) -> float:
    """C(pixels - window, k) / C(pixels, k): no pixel of the window is in a random set of size k."""
    share = 1.0
    for i in range(window):
        share *= max(0, pixels - k - i) / (pixels - i)
    return share


def _check(height: int, width: int, k: int) -> None:
    if not 1 <= k <= height * width:
        raise expected(f"1 <= k <= {height * width}, the number of pixels", got=f"k = {k}")
