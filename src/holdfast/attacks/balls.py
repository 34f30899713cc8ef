"""Threat models: the allowed perturbations, and the steepest ascent step within them.

Pixels are in [0, 1]. `project` maps an image into both the ball and the pixel range.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from holdfast import rng
from holdfast.engine.ops import flatten, per_example
from holdfast.errors import expected


class Ball(Protocol):
    """All images within `eps` of x. `scaled` returns the same ball with another radius (budget warm-up)."""

    @property
    def eps(self) -> float: ...
    def project(self, x_adv: Tensor, x: Tensor) -> Tensor: ...
    def step(self, gradient: Tensor) -> Tensor: ...
    def sample(self, keys: Tensor, x: Tensor) -> Tensor: ...
    def scaled(self, factor: float) -> "Ball": ...


@dataclass(frozen=True)
class Linf:
    """The L-infinity ball, |x' - x| <= eps at every pixel; the steepest step is the sign of the gradient.

    >>> import torch
    >>> x, x_adv = torch.tensor([[[[0.5, 0.5]]]]), torch.tensor([[[[0.9, 0.25]]]])
    >>> Linf(0.25).project(x_adv, x).flatten().tolist()
    [0.75, 0.25]
    """

    eps: float

    def __post_init__(self) -> None:
        _check_radius(self.eps)

    def project(self, x_adv: Tensor, x: Tensor) -> Tensor:
        return x_adv.clamp(x - self.eps, x + self.eps).clamp(0, 1)

    def step(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def sample(self, keys: Tensor, x: Tensor) -> Tensor:
        """Sample uniformly from the ball, clipped to the pixel range."""
        return self.project(x + rng.uniform(keys, x, low=-self.eps, high=self.eps), x)

    def scaled(self, factor: float) -> "Linf":
        return Linf(self.eps * factor)


@dataclass(frozen=True)
class L2:
    """The Euclidean ball, ||x' - x|| <= eps; the steepest step is the gradient divided by its norm.

    >>> import torch
    >>> x, x_adv = torch.tensor([[[[0.0, 0.0]]]]), torch.tensor([[[[0.75, 1.0]]]])
    >>> L2(0.625).project(x_adv, x).flatten().tolist()
    [0.375, 0.5]
    """

    eps: float

    def __post_init__(self) -> None:
        _check_radius(self.eps)

    def project(self, x_adv: Tensor, x: Tensor) -> Tensor:
        # Clipping to the pixel range moves towards x, which lies inside it, so the result stays in the ball.
        change = x_adv - x
        too_far = (flatten(change).norm(dim=1) / max(self.eps, 1e-30)).clamp_min(1)
        return (x + change / per_example(too_far, x)).clamp(0, 1)

    def step(self, gradient: Tensor) -> Tensor:
        # Divide by the largest entry first, since the squares of tiny gradients would underflow.
        unit = gradient / per_example(flatten(gradient).abs().amax(1).clamp_min(1e-30), gradient)
        return unit / per_example(flatten(unit).norm(dim=1).clamp_min(1e-30), unit)

    def sample(self, keys: Tensor, x: Tensor) -> Tensor:
        """Sample uniformly from the ball, clipped to the pixel range."""
        direction = self.step(rng.normal(keys, x))
        radius = rng.uniform(keys, keys.to(x.dtype)[:, None], stream=7)[:, 0] ** (1 / x[0].numel())
        return self.project(x + self.eps * per_example(radius, x) * direction, x)

    def scaled(self, factor: float) -> "L2":
        return L2(self.eps * factor)


def _check_radius(eps: float) -> None:
    if not 0 <= eps < float("inf"):
        raise expected("a budget eps >= 0", got=eps, fix="pixels are in [0, 1]: 8 grey levels are 8/255")
