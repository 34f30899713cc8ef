"""Pearson correlation of two maps."""

import torch  # noqa: F401 - for the doctest
from torch import Tensor

from holdfast.metrics.cosine import correlation
from holdfast.metrics.maps import or_nan, rankable


def pearson_r(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's correlation coefficient of the entries of two maps; NaN if a map is constant or not finite.

    >>> pearson_r(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 3.0, 2.0]]))
    tensor([0.5000], dtype=torch.float64)
    """
    flat_a, flat_b, valid = rankable(a, b)
    u, v = (m.double() - m.double().mean(1, keepdim=True) for m in (flat_a, flat_b))
    return or_nan(correlation((u * v).sum(1), u.square().sum(1), v.square().sum(1)), valid)
