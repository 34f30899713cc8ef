"""Small per-example tensor helpers."""

from torch import Tensor


def flatten(x: Tensor) -> Tensor:
    """[B, ...] -> [B, P]."""
    return x.flatten(1)


def per_example(values: Tensor, like: Tensor) -> Tensor:
    """Shape [B] values so that they broadcast against `like` [B, ...]."""
    return values.reshape(-1, *([1] * (like.dim() - 1)))
