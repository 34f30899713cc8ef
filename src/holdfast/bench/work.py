"""Networks and images used by all benchmarks."""

from typing import Any

import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.data.dataset import to_float

GREY = (1, 28, 28)


def network(name: str = "paper-cnn", shape: tuple[int, int, int] = GREY, **options: Any) -> nn.Module:
    """A network for ten classes with fixed random weights; speed does not depend on the weights."""
    return hf.models.build(name, num_classes=10, in_channels=shape[0], image_size=shape[1], seed=0, **options).eval()


def images(batch: int, shape: tuple[int, int, int] = GREY) -> tuple[Tensor, Tensor]:
    """Digits enlarged to `shape`, with black borders and ties as in real images, and labels that cover all classes."""
    digits = hf.data.load("digits", "test")
    x = to_float(digits.x[torch.arange(batch) % len(digits)])
    x = torch.nn.functional.interpolate(x, shape[1:], mode="bilinear").expand(-1, shape[0], -1, -1)
    return x.contiguous(), torch.arange(batch) % 10


def keys(batch: int) -> Tensor:
    """Keys of the random numbers of the images."""
    return hf.make_keys(0, torch.arange(batch))


def relative_difference(a: Tensor, b: Tensor) -> float:
    """The largest absolute difference divided by the largest absolute value of `b`."""
    return float((a - b).abs().max() / b.abs().max())


def relative_distance(a: Tensor, b: Tensor) -> float:
    """The Euclidean distance divided by the norm of `b`; one pixel whose map is zero up to rounding hardly counts."""
    return float((a - b).norm() / b.norm())


def share_that_differs(a: Tensor, b: Tensor) -> float:
    """The share of pixels that differ; the sign of a gradient near zero can differ by rounding."""
    return float(((a - b).abs() > 1e-5).double().mean())
