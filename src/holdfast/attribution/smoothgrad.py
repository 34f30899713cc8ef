"""SmoothGrad (Smilkov et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attribution.base import GradientMap, Maps
from holdfast.attribution.scores import true_logit
from holdfast.engine.gradients import check_chunk, weighted_gradients
from holdfast.errors import expected
from holdfast.types import Model, Score, Target


@dataclass(frozen=True, kw_only=True)
class SmoothGrad(GradientMap):
    """Mean gradient over noisy copies, (1/n) sum_j grad_x s(f(x + sigma e_j)), e_j ~ N(0, 1) (Smilkov et al. 2017).

    All examples share the same `samples` noise images, drawn from `seed`, so the map of an example does not depend on
    the rest of the batch. Noisy copies may leave [0, 1], as in the original paper.

    >>> SmoothGrad(samples=4)(lambda x: x.flatten(1) * 3, torch.ones(1, 1, 1, 2), torch.tensor([0])).flatten().tolist()
    [3.0, 0.0]
    """

    samples: int = 25
    sigma: float = 0.15
    seed: int = 0
    score: Score = true_logit
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)
        if self.samples < 1:
            raise expected("samples >= 1", got=self.samples)
        if not self.sigma >= 0:
            raise expected("sigma >= 0", got=self.sigma, fix="it is a standard deviation in pixel units of [0, 1]")

    def maps(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> Maps:
        noise = self._noise(x)
        found = weighted_gradients(
            model,
            x,
            targets,
            place=lambda rows, js: x[None, rows] + noise[js, None],
            weights=x.new_full((self.samples,), 1 / self.samples),
            create_graph=create_graph,
            chunk=self.chunk,
        )
        return Maps(found.gradients, None)

    @property
    def points(self) -> int:
        return self.samples

    @property
    def passes_image(self) -> bool:
        return False

    def with_points(self, points: int) -> "SmoothGrad":
        return replace(self, samples=points)

    def sampled(self, step: int, points: int = 1) -> "SmoothGrad":
        return replace(self, samples=points, seed=self.seed + 1 + step)

    def _noise(self, x: Tensor) -> Tensor:  # [samples, C, H, W]
        keys = rng.make_keys(self.seed, torch.arange(self.samples, device=x.device))
        return self.sigma * rng.normal(keys, x.new_empty(self.samples, *x.shape[1:]))
