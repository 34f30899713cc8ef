"""What a map made of gradients declares about itself: its cost, what it shares, and whether it is complete."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.errors import expected
from holdfast.types import Model, Score, Target


@dataclass(frozen=True)
class Maps:
    """One map per target, each like x, and the logits at x where the computation went through them anyway."""

    maps: list[Tensor]
    logits: Tensor | None


class GradientMap(ABC):
    """A map that is a weighted sum of gradients of `score`; subclasses are frozen dataclasses.

    A subclass implements `maps`. The other methods describe the map to losses, attacks and the evaluation, and have
    defaults that are right for a map with one point.
    """

    score: Score

    @abstractmethod
    def maps(
        self,
        model: Model,
        x: Tensor,
        targets: Sequence[Target],
        *,
        start: Tensor | None = None,
        create_graph: bool = False,
    ) -> Maps:
        """One map per (score, labels) of `targets`; all share the forward passes. `start` is for path methods only."""

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        """The map of `score` for labels y [B], like x."""
        return self.maps(model, x, [(self.score, y)], create_graph=create_graph).maps[0]

    @property
    def points(self) -> int:
        """The cost: images per example that go through the network for one map."""
        return 1

    @property
    def passes_image(self) -> bool:
        """Whether x itself is one of the points and the last one, so that its logits come for free."""
        return True

    def with_points(self, points: int) -> "GradientMap":
        """A cheaper version with fewer points, for the inside of a search."""
        fix = "leave search_ig_steps out"
        raise expected("a map with a number of points to reduce", got=type(self).__name__, fix=fix)

    def completeness_gap(self, model: Model, x: Tensor, y: Tensor, attribution: Tensor | None = None) -> Tensor | None:
        """sum of the map - (s(x) - s(x0)), [B]; None for maps that do not promise completeness."""
        return None

    def relative_gap(self, model: Model, x: Tensor, y: Tensor) -> Tensor | None:
        """|completeness gap| / |s(x) - s(x0)|, [B]; None for maps that do not promise completeness."""
        return None


def refuse_start(attribution: GradientMap, start: Tensor | None) -> None:
    """Refuse a path for a map that has none."""
    if start is not None:
        raise expected("a path method such as IntegratedGradients for the map between two images", got=attribution)
