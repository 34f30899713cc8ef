"""Integrated gradients (Sundararajan et al. 2017; Eq. 1 of the paper).

    IG(x0, x) = (x - x0) * sum_j w_j grad s(f(x0 + t_j (x - x0)))

with points t_j and weights w_j of a quadrature rule; the paper uses `right`, t_k = k/m. `IntegratedGradients.maps`
implements the equation. Chunking is in `engine/gradients.py`; the shortcut for networks with f(a x) = f(x) is in
`attribution/shortcut.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attribution import shortcut
from holdfast.attribution.base import GradientMap, Maps
from holdfast.attribution.quadrature import GOLDEN, inverse_moment, last_point, nodes, shifted
from holdfast.attribution.scores import true_logit
from holdfast.engine.gradients import check_chunk, check_logits, images_per_pass, weighted_gradients
from holdfast.engine.ops import flatten
from holdfast.engine.parallel import slices
from holdfast.engine.straight_path import StraightPath
from holdfast.errors import expected
from holdfast.types import Model, Score, Target


@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(GradientMap):
    """Integrated gradients of `score` from `baseline` to the image, with `steps` points of `rule`.

    `shortcut`: networks with f(a x) = f(x) need one gradient instead of `steps` (see `scale_factor`). None uses the
    shortcut if the network declares the property (`scale_invariant = True`) or passes a numerical test. False always
    computes all points. True uses the shortcut without a test. `chunk` limits the images per forward pass; it does not
    change the result.

    >>> ig = IntegratedGradients(steps=4)
    >>> ig(lambda x: x.flatten(1) * 3, torch.ones(1, 1, 1, 2), torch.tensor([0])).flatten().tolist()
    [3.0, 0.0]
    """

    steps: int = 50
    score: Score = true_logit
    baseline: float | Tensor = 0.0
    rule: str = "right"
    shortcut: bool | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        nodes(self.rule, self.steps, torch.empty(0))  # raises for an unknown rule or steps < 1
        check_chunk(self.chunk)
        if self.shortcut and self.scale_factor() is None:
            raise expected("a zero baseline and a rule without a point at 0 for the shortcut", got=self)

    def maps(
        self,
        model: Model,
        x: Tensor,
        targets: Sequence[Target],
        *,
        start: Tensor | None = None,
        create_graph: bool = False,
    ) -> Maps:
        """IG(x0, x) of each target (Eq. 1). `start` replaces the baseline x0; losses use it for IG(x, x')."""
        if start is None and x.shape[0]:
            short = shortcut.applies(self, model, x)
            if bool(short.any()):
                return shortcut.maps(self, model, x, targets, short, create_graph=create_graph)
        x0 = self.start(x) if start is None else start
        t, w = nodes(self.rule, self.steps, x)
        difference = x - x0
        sums = weighted_gradients(
            model,
            x,
            targets,
            place=lambda rows, js: StraightPath(x0[rows], difference[rows], t[js]),
            weights=w,
            create_graph=create_graph,
            chunk=self.chunk,
        )
        return Maps([difference * g for g in sums.gradients], sums.last_logits if self.passes_image else None)

    def between(self, model: Model, x: Tensor, x_adv: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        """IG(x, x'): the path from x to x' instead of from the baseline."""
        return self.maps(model, x_adv, [(self.score, y)], start=x, create_graph=create_graph).maps[0]

    @property
    def points(self) -> int:
        return self.steps

    def points_needed(self, model: Model, x: Tensor) -> int:
        """The number of points that the maps of x take: one if the shortcut applies to all images."""
        return 1 if x.shape[0] and bool(shortcut.applies(self, model, x).all()) else self.steps

    @property
    def passes_image(self) -> bool:
        return last_point(self.rule, self.steps) == 1.0

    def with_points(self, points: int) -> "IntegratedGradients":
        """The same map with fewer points, by the midpoint rule."""
        return replace(self, steps=points, rule="midpoint")

    def sampled(self, step: int, points: int = 1) -> "IntegratedGradients":
        """The map with a few equidistant points that move with the step, so that they cover the path evenly."""
        return replace(self, steps=points, rule=shifted((0.5 + step * GOLDEN) % 1), shortcut=False)

    def completeness_gap(self, model: Model, x: Tensor, y: Tensor, attribution: Tensor | None = None) -> Tensor:
        """sum_i IG_i - (s(f(x)) - s(f(x0))), [B]: zero for the exact integral, so it measures the quadrature error."""
        total = flatten(self(model, x, y) if attribution is None else attribution).sum(1)
        return total - self.change_of_score(model, x, y)

    def relative_gap(self, model: Model, x: Tensor, y: Tensor) -> Tensor:
        gap = self.completeness_gap(model, x, y)
        return (gap.abs() / self.change_of_score(model, x, y).abs().clamp_min(1e-12)).double()

    @torch.no_grad()
    def change_of_score(self, model: Model, x: Tensor, y: Tensor) -> Tensor:
        """s(f(x)) - s(f(x0)), [B]: the sum of the exact map."""
        parts = slices(x.shape[0], self.chunk or images_per_pass(x))
        ends = [torch.cat([check_logits(model(end[p]), x[p]) for p in parts]) for end in (x, self.start(x))]
        return self.score(ends[0], y) - self.score(ends[1], y)

    def start(self, x: Tensor) -> Tensor:
        """The baseline x0 as a batch shaped like x."""
        return torch.as_tensor(self.baseline, dtype=x.dtype, device=x.device).expand_as(x)

    def scale_factor(self) -> float | None:
        """c with IG = c x * grad s(f(x)) whenever f(a x) = f(x) for all a > 0; None where no such c exists.

        In that case grad f(t x) = grad f(x) / t, so the sum over the path is sum_j w_j / t_j times the gradient at x.
        For the right rule this factor is H_m = 1 + 1/2 + ... + 1/m.
        """
        black = not isinstance(self.baseline, Tensor) and self.baseline == 0
        return inverse_moment(self.rule, self.steps) if black else None
