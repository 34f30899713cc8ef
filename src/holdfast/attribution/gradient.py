"""The gradient (Simonyan et al. 2013)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch  # noqa: F401 - for the doctest
from torch import Tensor

from holdfast.attribution.base import GradientMap, Maps
from holdfast.attribution.scores import true_logit
from holdfast.engine.gradients import check_chunk, weighted_gradients
from holdfast.types import Model, Score, Target


@dataclass(frozen=True, kw_only=True)
class Gradient(GradientMap):
    """grad_x s(f(x)) (Simonyan et al. 2013).

    >>> Gradient()(lambda x: x.flatten(1) * 3, torch.ones(1, 1, 1, 2), torch.tensor([0])).flatten().tolist()
    [3.0, 0.0]
    """

    score: Score = true_logit
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)

    def maps(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> Maps:
        found = weighted_gradients(
            model,
            x,
            targets,
            place=lambda rows, js: x[None, rows],
            weights=x.new_ones(1),
            create_graph=create_graph,
            chunk=self.chunk,
        )
        return Maps(found.gradients, found.last_logits)
