"""Top-k intersection: the share of the k most important pixels that two maps have in common."""

import torch
from torch import Tensor

from holdfast.engine.ops import flatten
from holdfast.errors import expected
from holdfast.metrics.maps import or_nan, rankable


def top_k_intersection(a: Tensor, b: Tensor, k: int) -> Tensor:
    """Share of the k largest entries of a that are also among the k largest of b; see `top_k_mask` for ties.

    >>> top_k_intersection(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[3.0, 0.0, 2.0, 1.0]]), k=2)
    tensor([0.5000], dtype=torch.float64)
    """
    a, b, valid = rankable(a, b)
    both = top_k_mask(a, k) & top_k_mask(b, k)
    return or_nan(both.sum(1).double() / k, valid)


def top_k_mask(a: Tensor, k: int) -> Tensor:
    """Boolean [B, P]: the k largest entries of each row; of equal entries the first are taken, on every device."""
    a = flatten(a)
    if not 1 <= k <= a.shape[1]:
        raise expected(f"1 <= k <= {a.shape[1]}, the number of entries of a map", got=f"k = {k}")
    order = a.argsort(dim=1, descending=True, stable=True)[:, :k]
    return torch.zeros_like(a, dtype=torch.bool).scatter_(1, order, True)
