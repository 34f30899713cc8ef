"""Helpers shared by all metrics: a check for equal shapes, and which maps can be ranked."""

import torch
from torch import Tensor

from holdfast.engine.ops import flatten
from holdfast.errors import expected


def same_shape(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if a.shape != b.shape or a.dim() < 2:
        raise expected("two batches of maps of the same shape", got=f"{list(a.shape)} and {list(b.shape)}")
    return flatten(a.detach()), flatten(b.detach())


def has_ranking(a: Tensor) -> Tensor:
    """bool [B]: whether the map is finite and not constant, so its entries can be ranked."""
    a = flatten(a)
    return a.isfinite().all(1) & (a != a[:, :1]).any(1)


def rankable(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both maps flattened, and bool [B]: whether both have a ranking (finite and not constant)."""
    a, b = same_shape(a, b)
    return a, b, has_ranking(a) & has_ranking(b)


def or_nan(value: Tensor, valid: Tensor) -> Tensor:
    return torch.where(valid, value, torch.nan)
