"""Input x gradient (Shrikumar et al. 2016)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch  # noqa: F401 - for the doctest
from torch import Tensor

from holdfast.attribution.base import GradientMap, Maps
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.scores import true_logit
from holdfast.engine.gradients import check_chunk
from holdfast.types import Model, Score, Target


@dataclass(frozen=True, kw_only=True)
class InputXGradient(GradientMap):
    """x * grad_x s(f(x)) (Shrikumar et al. 2016).

    >>> x = torch.full((1, 1, 1, 2), 0.5)
    >>> InputXGradient()(lambda x: x.flatten(1) * 3, x, torch.tensor([0])).flatten().tolist()
    [1.5, 0.0]
    """

    score: Score = true_logit
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)

    def maps(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> Maps:
        found = Gradient(chunk=self.chunk).maps(model, x, targets, create_graph=create_graph)
        return Maps([x * gradient for gradient in found.maps], found.logits)
