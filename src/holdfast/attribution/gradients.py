"""Maps from plain gradients: gradient, input x gradient, SmoothGrad."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attribution.engine import averaged_gradients
from holdfast.attribution.scores import true_logit
from holdfast.errors import expected
from holdfast.types import Model, Score


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """grad_x s(f(x)) (Simonyan et al. 2013)."""

    score: Score = true_logit
    chunk: int | None = None

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        return averaged_gradients(
            model,
            x,
            [(self.score, y)],
            place=lambda rows, js: x[None, rows],
            weights=x.new_ones(1),
            create_graph=create_graph,
            chunk=self.chunk,
        ).gradients[0]


@dataclass(frozen=True, kw_only=True)
class InputXGradient:
    """x * grad_x s(f(x)) (Shrikumar et al. 2016)."""

    score: Score = true_logit
    chunk: int | None = None

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        return x * Gradient(score=self.score, chunk=self.chunk)(model, x, y, create_graph=create_graph)


@dataclass(frozen=True, kw_only=True)
class SmoothGrad:
    """Mean gradient over noisy copies, (1/n) sum_j grad_x s(f(x + sigma e_j)), e_j ~ N(0, 1) (Smilkov et al. 2017).

    The same `samples` noise images, drawn from `seed`, are used for every example, so the map of an example depends
    on nothing but the example. Noisy copies may leave [0, 1], as in the original.
    """

    samples: int = 25
    sigma: float = 0.15
    seed: int = 0
    score: Score = true_logit
    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise expected("samples >= 1", got=self.samples)
        if not self.sigma >= 0:
            raise expected("sigma >= 0", got=self.sigma, fix="it is a standard deviation in pixel units of [0, 1]")

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        noise = self._noise(x)
        return averaged_gradients(
            model,
            x,
            [(self.score, y)],
            place=lambda rows, js: x[None, rows] + noise[js, None],
            weights=x.new_full((self.samples,), 1 / self.samples),
            create_graph=create_graph,
            chunk=self.chunk,
        ).gradients[0]

    def _noise(self, x: Tensor) -> Tensor:  # [samples, C, H, W]
        keys = rng.make_keys(self.seed, torch.arange(self.samples, device=x.device))
        return self.sigma * rng.normal(keys, x.new_empty(self.samples, *x.shape[1:]))
