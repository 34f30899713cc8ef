"""Helpers shared by all metrics: which input they accept, which maps can be ranked, and division by the maximum."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.engine.ops import flatten, per_example
from holdfast.errors import expected

ONE_MAP = "a single map is passed as map[None]"


def as_maps(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two batches of maps [B, ...] of the same shape: tensors, or NumPy arrays, which are converted.

    The first dimension is always the batch, so two dimensions are flattened maps [B, P].

    >>> [list(m.shape) for m in as_maps(np.eye(3), torch.eye(3))]
    [[3, 3], [3, 3]]
    """
    device = next((m.device for m in (a, b) if isinstance(m, Tensor)), None)
    a, b = (m.detach() if isinstance(m, Tensor) else _from_array(m, device) for m in (a, b))
    if a.shape != b.shape or a.dim() < 2:
        got = f"{list(a.shape)} and {list(b.shape)}"
        raise expected("two batches of maps [B, H, W] or [B, P] of the same shape", got=got, fix=ONE_MAP)
    return a, b


def _from_array(values: Any, device: torch.device | None) -> Tensor:
    array = np.array(values, order="C")  # a copy: PyTorch takes neither negative strides nor read-only memory
    if array.dtype.kind not in "fiub":
        raise expected("maps as tensors or as NumPy arrays of numbers", got=type(values).__name__)
    return torch.from_numpy(array).to(device)


def same_shape(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two batches of maps of the same shape, flattened to [B, P]."""
    a, b = as_maps(a, b)
    return flatten(a), flatten(b)


def spatial(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two batches of maps [B, H, W] of the same shape, for metrics that need to know where a pixel is."""
    a, b = as_maps(a, b)
    if a.dim() != 3:
        raise expected(
            "maps [B, H, W], since the metric needs the places of the pixels", got=list(a.shape), fix=ONE_MAP
        )
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
