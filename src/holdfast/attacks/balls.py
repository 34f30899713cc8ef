"""Threat models: which changes of an image count as small, and the steepest step inside them.

Pixels live in [0, 1]; `project` goes back into ball and pixel range at once.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from holdfast import rng
from holdfast.engine.ops import flatten, per_example
from holdfast.errors import expected


class Ball(Protocol):
    """All images within `eps` of x; `scaled` is the same ball with another radius (budget warm-up)."""

    @property
    def eps(self) -> float: ...
    def project(self, x_adv: Tensor, x: Tensor) -> Tensor: ...
    def step(self, gradient: Tensor) -> Tensor: ...
    def sample(self, keys: Tensor, x: Tensor) -> Tensor: ...
    def scaled(self, factor: float) -> "Ball": ...


@dataclass(frozen=True)
class Linf:
    """|x' - x| <= eps at every pixel; the steepest step is the sign."""

    eps: float

    def __post_init__(self) -> None:
        _check_radius(self.eps)

    def project(self, x_adv: Tensor, x: Tensor) -> Tensor:
        return x_adv.clamp(x - self.eps, x + self.eps).clamp(0, 1)

    def step(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def sample(self, keys: Tensor, x: Tensor) -> Tensor:
        """Uniform in the ball, clipped to the pixel range."""
        return self.project(x + rng.uniform(keys, x, low=-self.eps, high=self.eps), x)

    def scaled(self, factor: float) -> "Linf":
        return Linf(self.eps * factor)


@dataclass(frozen=True)
class L2:
    """Euclidean norm of x' - x at most eps; the steepest step is the gradient over its norm."""

    eps: float

    def __post_init__(self) -> None:
        _check_radius(self.eps)

    def project(self, x_adv: Tensor, x: Tensor) -> Tensor:
        # Clipping to the pixel range moves towards x, which is inside it, and cannot leave the ball again.
        change = x_adv - x
        too_far = (flatten(change).norm(dim=1) / max(self.eps, 1e-30)).clamp_min(1)
        return (x + change / per_example(too_far, x)).clamp(0, 1)

    def step(self, gradient: Tensor) -> Tensor:
        # By the largest entry first: squares of tiny gradients would vanish.
        unit = gradient / per_example(flatten(gradient).abs().amax(1).clamp_min(1e-30), gradient)
        return unit / per_example(flatten(unit).norm(dim=1).clamp_min(1e-30), unit)

    def sample(self, keys: Tensor, x: Tensor) -> Tensor:
        """Uniform in the ball, clipped to the pixel range."""
        direction = self.step(rng.normal(keys, x))
        radius = rng.uniform(keys, keys.to(x.dtype)[:, None], stream=7)[:, 0] ** (1 / x[0].numel())
        return self.project(x + self.eps * per_example(radius, x) * direction, x)

    def scaled(self, factor: float) -> "L2":
        return L2(self.eps * factor)


def _check_radius(eps: float) -> None:
    if not 0 <= eps < float("inf"):
        raise expected("a budget eps >= 0", got=eps, fix="pixels are in [0, 1]: 8 grey levels are 8/255")
