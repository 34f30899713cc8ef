"""Small helpers: shapes of per-example tensors, settings of layers, typed calls of autograd functions."""

from typing import Any

import torch
from torch import Tensor


def flatten(x: Tensor) -> Tensor:
    """[B, ...] -> [B, P]."""
    return x.flatten(1)


def per_example(values: Tensor, like: Tensor) -> Tensor:
    """Shape [B] values so that they broadcast against `like` [B, ...]."""
    return values.reshape(-1, *([1] * (like.dim() - 1)))


def both_axes(value: Any) -> tuple[int, int]:
    """A setting of a convolution or of pooling for (height, width): PyTorch takes one number, one in a tuple, or two.

    >>> both_axes(2), both_axes((2,)), both_axes((2, 3))
    ((2, 2), (2, 2), (2, 3))
    """
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def apply(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    """`function.apply` with the type of its result."""
    result: Tensor = function.apply(*inputs)
    return result
