"""top-k-div: agreement of diverse top-k sets (Kamath et al. 2024, "Rethinking Robustness of Model Attributions").

A diverse set is built greedily: take the largest pixel, delete all pixels within `radius` of it, and repeat k times. So
a blob of large values counts once. If no pixel is left before k were taken, the set is smaller than k, and shares refer
to its true size. `holdfast.metrics.chance.top_k_div` gives the value of two random maps.
"""

import torch
from torch import Tensor

from holdfast.engine.ops import flatten
from holdfast.errors import expected
from holdfast.metrics.lens import check_radius, dilate
from holdfast.metrics.maps import or_nan, rankable, spatial


def top_k_div(a: Tensor, b: Tensor, k: int, radius: int = 1, pool: int | None = None) -> Tensor:
    """|D(a) and D(b)| / max(|D(a)|, |D(b)|) of the diverse top-k sets of two maps [B, H, W].

    `pool` takes pixels only among that many largest ones.

    >>> a = torch.tensor([[[9.0, 8.0, 0.0, 7.0]]])  # picks 0, skips its neighbour 1, picks 3
    >>> b = torch.tensor([[[0.0, 8.0, 0.0, 7.0]]])  # picks 1, then 3
    >>> top_k_div(a, b, k=2)
    tensor([0.5000], dtype=torch.float64)
    """
    first, second, valid = _sets(a, b, k, radius, pool)
    size = torch.maximum(first.sum((1, 2)), second.sum((1, 2)))
    return or_nan((first & second).sum((1, 2)).double() / size, valid)


def lens_recall_div(a: Tensor, b: Tensor, k: int, radius: int = 1, pool: int | None = None) -> Tensor:
    """|N_w(D(a)) and D(b)| / |D(b)|: LENS-recall of the diverse top-k sets of two maps [B, H, W].

    >>> a = torch.tensor([[[9.0, 8.0, 0.0, 7.0]]])
    >>> b = torch.tensor([[[0.0, 8.0, 0.0, 7.0]]])
    >>> lens_recall_div(a, b, k=2)
    tensor([1.], dtype=torch.float64)
    """
    first, second, valid = _sets(a, b, k, radius, pool)
    return or_nan((dilate(first, radius) & second).sum((1, 2)).double() / second.sum((1, 2)), valid)


def lens_precision_div(a: Tensor, b: Tensor, k: int, radius: int = 1, pool: int | None = None) -> Tensor:
    """|D(a) and N_w(D(b))| / |D(a)|: LENS-precision of the diverse top-k sets of two maps [B, H, W].

    >>> a, b = torch.tensor([[[1.0, 0.0, 0.0, 2.0]]]), torch.tensor([[[0.0, 0.0, 0.5, 1.0]]])
    >>> lens_precision_div(a, b, k=1)
    tensor([1.], dtype=torch.float64)
    """
    return lens_recall_div(b, a, k, radius, pool)


def diverse_top_k_mask(a: Tensor, k: int, radius: int = 1, pool: int | None = None) -> Tensor:
    """Boolean [B, H, W]: the greedy diverse set of each map [B, H, W]; of equal pixels the first is taken.

    >>> diverse_top_k_mask(torch.tensor([[[9.0, 8.0, 0.0, 7.0]]]), k=2).int().tolist()
    [[[1, 0, 0, 1]]]
    """
    a = spatial(a, a)[0]
    check_radius(radius)
    batch, height, width = a.shape
    pixels = height * width
    if not 1 <= k <= pixels:
        raise expected(f"1 <= k <= {pixels}, the number of entries of a map", got=f"k = {k}")
    if pool is not None and not k <= pool <= pixels:
        raise expected(f"k <= pool <= {pixels}, the number of entries of a map", got=f"k = {k}, pool = {pool}")
    # 0 is the largest pixel; a deleted pixel gets the number of pixels, so that it is never the smallest
    places = flatten(a).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    if pool is not None:
        places = places.masked_fill(places >= pool, pixels)
    chosen = torch.zeros(batch, pixels, dtype=torch.bool, device=a.device)
    windows = _windows(height, width, radius).to(a.device)
    for _ in range(k if batch else 0):
        place, pick = places.min(dim=1, keepdim=True)
        chosen.scatter_(1, pick, chosen.gather(1, pick) | (place < pixels))  # nothing is left where place == pixels
        places.scatter_(1, windows[pick[:, 0]], pixels)
    return chosen.reshape(a.shape)


def _sets(a: Tensor, b: Tensor, k: int, radius: int, pool: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """The diverse sets of both maps, and bool [B]: whether both maps have a ranking."""
    a, b = spatial(a, b)
    valid = rankable(a, b)[2]
    return diverse_top_k_mask(a, k, radius, pool), diverse_top_k_mask(b, k, radius, pool), valid


def _windows(height: int, width: int, radius: int) -> Tensor:
    """int64 [H W, (2 radius + 1)^2]: the pixels of the window around each pixel; border pixels are repeated."""
    offset = torch.arange(-radius, radius + 1)
    rows = (torch.arange(height)[:, None] + offset).clamp(0, height - 1)
    columns = (torch.arange(width)[:, None] + offset).clamp(0, width - 1)
    return (rows[:, None, :, None] * width + columns[None, :, None, :]).reshape(height * width, -1)
