"""Helpers shared by all metrics: which input they accept, which maps can be ranked, and division by the maximum."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.engine.ops import flatten, per_example
from holdfast.errors import expected


def as_maps(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two batches of maps of the same shape [B, ...]: tensors, or NumPy arrays, which are converted.

    Two dimensions are one map [H, W] and become a batch of one. A batch of flattened maps is [B, 1, P].

    >>> [list(m.shape) for m in as_maps(np.eye(3), torch.eye(3))]
    [[1, 3, 3], [1, 3, 3]]
    """
    device = next((m.device for m in (a, b) if isinstance(m, Tensor)), None)
    a, b = (m.detach() if isinstance(m, Tensor) else _from_array(m, device) for m in (a, b))
    if a.shape != b.shape or a.dim() < 2:
        got = f"{list(a.shape)} and {list(b.shape)}"
        raise expected("two maps [H, W] or two batches of maps [B, H, W], of the same shape", got=got)
    return (a[None], b[None]) if a.dim() == 2 else (a, b)


def _from_array(values: Any, device: torch.device | None) -> Tensor:
    array = np.array(values, order="C")  # a copy: PyTorch takes neither negative strides nor read-only memory
    if array.dtype.kind not in "fiub":
        raise expected("maps as tensors or as NumPy arrays of numbers", got=type(values).__name__)
    return torch.from_numpy(array).to(device)


def same_shape(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two maps or two batches of maps of the same shape, flattened to [B, P]."""
    a, b = as_maps(a, b)
    return flatten(a), flatten(b)


def spatial(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two batches of maps [B, H, W] of the same shape, for metrics that need to know where a pixel is."""
    a, b = as_maps(a, b)
    if a.dim() != 3:
        raise expected("maps [B, H, W] or [H, W]", got=list(a.shape))
    return a, b


def has_ranking(a: Tensor) -> Tensor:
    """bool [B]: whether the map is finite and not constant, so its entries can be ranked."""
    a = flatten(a)
    return a.isfinite().all(1) & (a != a[:, :1]).any(1)


def rankable(a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both maps flattened, and bool [B]: whether both have a ranking (finite and not constant)."""
    a, b = same_shape(a, b)
    return a, b, has_ranking(a) & has_ranking(b)


def by_maximum(a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both maps divided by their maximum, float64, and bool [B]: whether both are finite with a positive maximum."""
    a, b = (m.double() for m in as_maps(a, b))
    tops = [flatten(m).amax(1) for m in (a, b)]
    valid = torch.stack([flatten(m).isfinite().all(1) & (top > 0) for m, top in zip((a, b), tops, strict=True)]).all(0)
    first, second = (m / per_example(top.where(valid, 1), m) for m, top in zip((a, b), tops, strict=True))
    return first, second, valid


def or_nan(value: Tensor, valid: Tensor) -> Tensor:
    return torch.where(valid, value, torch.nan)
