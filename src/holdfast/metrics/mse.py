"""Mean squared error of two maps."""

import torch  # noqa: F401 - for the doctest
from torch import Tensor

from holdfast.metrics.maps import by_maximum, or_nan


def mean_squared_error(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared difference of two maps, each divided by its maximum first; in [0, 1] for maps without negatives.

    NaN if a map has no mass or is not finite.

    >>> mean_squared_error(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 3.0]]))
    tensor([0.5000], dtype=torch.float64)
    """
    u, v, valid = by_maximum(a, b)
    return or_nan((u - v).square().flatten(1).mean(1), valid)
