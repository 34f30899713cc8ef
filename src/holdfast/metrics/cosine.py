"""Cosine similarity of two maps."""

import torch  # noqa: F401 - for the doctest
from torch import Tensor

from holdfast.metrics.maps import or_nan, same_shape


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between the maps; NaN if a map is zero everywhere or not finite.

    >>> cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071], dtype=torch.float64)
    """
    a, b = (m.double() for m in same_shape(a, b))
    return or_nan(
        correlation((a * b).sum(1), a.square().sum(1), b.square().sum(1)), a.isfinite().all(1) & b.isfinite().all(1)
    )


def correlation(uv: Tensor, uu: Tensor, vv: Tensor) -> Tensor:
    # One square root of the product, not two square roots: sqrt(n n) is exactly n, so identical maps give exactly 1.
    return (uv.double() / (uu.double() * vv.double()).sqrt()).clamp(-1, 1)
