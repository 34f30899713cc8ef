"""Helpers shared by all metrics: which input they accept, and which maps can be ranked."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.engine.ops import flatten
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


def has_ranking(a: Tensor) -> Tensor:
    """bool [B]: whether the map is finite and not constant, so its entries can be ranked."""
    a = flatten(a)
    return a.isfinite().all(1) & (a != a[:, :1]).any(1)


def rankable(a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both maps flattened, and bool [B]: whether both have a ranking (finite and not constant)."""
    a, b = same_shape(a, b)
    return a, b, has_ranking(a) & has_ranking(b)


def or_nan(value: Tensor, valid: Tensor) -> Tensor:
    return torch.where(valid, value, torch.nan)
