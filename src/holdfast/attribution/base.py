"""The base class of gradient maps: their cost, shared forward passes and completeness."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.engine.checks import check_labels, check_precision, check_scale
from holdfast.errors import expected
from holdfast.types import Model, Score, Target


@dataclass(frozen=True)
class Maps:
    """One map per target, each shaped like x, and the logits at x if the computation produced them."""

    maps: list[Tensor]
    logits: Tensor | None


class GradientMap(ABC):
    """A map that is a weighted sum of gradients of `score`. Subclasses are frozen dataclasses.

    A subclass implements `maps`. The other methods describe the map to losses, attacks and the evaluation. Their
    defaults suit a map with one point.
    """

    score: Score

    @abstractmethod
    def maps(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> Maps:
        """One map per (score, labels) of `targets`; all share the forward passes. Path methods also take a `start`."""

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        """The map of `score` for labels y [B], shaped like x."""
        check_scale(x)
        check_precision(model, x)
        check_labels(y, x.shape[0])
        try:
            return self.maps(model, x, [(self.score, y)], create_graph=create_graph).maps[0]
        except (IndexError, RuntimeError) as error:
            if "out of bounds" in str(error):  # of the score: no check of the values, which would wait for a GPU
                check_labels(y, x.shape[0], _outputs(model, x))
            raise

    @property
    def points(self) -> int:
        """Cost of one map: images per example that pass through the network."""
        return 1

    @property
    def passes_image(self) -> bool:
        """Whether x itself is the last point, so that its logits need no extra pass."""
        return True

    def with_points(self, points: int) -> "GradientMap":
        """A cheaper version of the map with fewer points, for use inside a search."""
        fix = "omit search_ig_steps"
        raise expected("a map with a number of points to reduce", got=type(self).__name__, fix=fix)

    def sampled(self, step: int, points: int = 1) -> "GradientMap":
        """A cheap version of the map for step number `step` of a search; over the steps its mean is the map."""
        return self

    def completeness_gap(self, model: Model, x: Tensor, y: Tensor, attribution: Tensor | None = None) -> Tensor | None:
        """sum of the map - (s(x) - s(x0)), [B]; None for maps without the completeness property."""
        return None

    def relative_gap(self, model: Model, x: Tensor, y: Tensor) -> Tensor | None:
        """|completeness gap| / |s(x) - s(x0)|, [B]; None for maps without the completeness property."""
        return None


def _outputs(model: Model, x: Tensor) -> int:
    """The number of outputs of the network."""
    with torch.no_grad():
        return model(x[:1]).shape[1]
