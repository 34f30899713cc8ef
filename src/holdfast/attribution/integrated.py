"""Integrated gradients (Sundararajan et al. 2017; Eq. 1 of the paper).

    IG(x0, x) = (x - x0) * sum_j w_j grad s(f(x0 + t_j (x - x0)))

with points t_j and weights w_j of a quadrature rule; the paper's is `right`, t_k = k/m.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attribution.engine import Target, averaged_gradients, check_chunk, check_logits, images_per_pass
from holdfast.attribution.quadrature import RULES, inverse_moment, nodes
from holdfast.attribution.scores import true_logit
from holdfast.errors import expected
from holdfast.models.lean import Line
from holdfast.models.scale import is_scale_invariant, scale_invariant_images
from holdfast.ops import flatten
from holdfast.side_by_side import slices
from holdfast.types import Model, Score


@dataclass(frozen=True, kw_only=True)
class IntegratedGradients:
    """Integrated gradients of `score` from `baseline` to the image, with `steps` points of `rule`.

    `shortcut`: networks with f(a x) = f(x) need one gradient instead of `steps` (see `scale_factor`). None uses it
    when the network declares the property (`scale_invariant = True`) or shows it; False always goes the long way;
    True trusts the caller. `chunk` bounds the images in one forward pass and changes nothing else.

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
        nodes(self.rule, self.steps, torch.empty(0))  # refuses an unknown rule or no steps
        check_chunk(self.chunk)
        if self.shortcut and self.scale_factor() is None:
            raise expected("a zero baseline and a rule without a point at 0 for the shortcut", got=self)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        return self.many(model, x, [(self.score, y)], create_graph=create_graph)[0]

    def many(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> list[Tensor]:
        """One map for each (score, labels) of `targets`; all share the forward passes."""
        return self.trace(model, None, x, targets, create_graph=create_graph).maps

    def between(self, model: Model, x: Tensor, x_adv: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        """IG(x, x'): the path from x to x' instead of from the baseline."""
        return self.trace(model, x, x_adv, [(self.score, y)], create_graph=create_graph).maps[0]

    def trace(
        self, model: Model, start: Tensor | None, end: Tensor, targets: Sequence[Target], *, create_graph: bool = False
    ) -> "Trace":
        """Maps of all `targets` along the path from `start` (None: the baseline) to `end`, and the logits at `end`."""
        if start is None and end.shape[0]:
            short = self._takes_shortcut(model, end)
            if bool(short.all()):
                return self._one_gradient(model, end, targets, create_graph)
            if bool(short.any()):
                return self._trace_both_ways(model, end, targets, create_graph, short)
        return self._walk(model, start, end, targets, create_graph)

    def _walk(
        self, model: Model, start: Tensor | None, end: Tensor, targets: Sequence[Target], create_graph: bool
    ) -> "Trace":
        t, weights = nodes(self.rule, self.steps, end)
        origin = self.start(end) if start is None else start
        way = end - origin
        found = averaged_gradients(
            model,
            end,
            targets,
            place=lambda rows, js: Line(origin[rows], way[rows], t[js]),
            weights=weights,
            create_graph=create_graph,
            chunk=self.chunk,
        )
        reaches_end = self.reaches_end()
        return Trace([way * g for g in found.gradients], found.last_logits if reaches_end else None)

    def reaches_end(self) -> bool:
        """Whether the last point of the rule is the image itself, so that its logits come for free."""
        return float(RULES[self.rule](self.steps)[0][-1]) == 1.0

    def completeness_gap(self, model: Model, x: Tensor, y: Tensor, attribution: Tensor | None = None) -> Tensor:
        """sum_i IG_i - (s(f(x)) - s(f(x0))), [B]: zero for the exact integral, so it measures the quadrature error."""
        total = flatten(self(model, x, y) if attribution is None else attribution).sum(1)
        return total - self.change_of_score(model, x, y)

    @torch.no_grad()
    def change_of_score(self, model: Model, x: Tensor, y: Tensor) -> Tensor:
        """s(f(x)) - s(f(x0)), [B]: what the map should sum to."""
        parts = slices(x.shape[0], self.chunk or images_per_pass(x))
        ends = [torch.cat([check_logits(model(end[p]), x[p]) for p in parts]) for end in (x, self.start(x))]
        return self.score(ends[0], y) - self.score(ends[1], y)

    def start(self, x: Tensor) -> Tensor:
        """The baseline x0 as a batch like x."""
        return torch.as_tensor(self.baseline, dtype=x.dtype, device=x.device).expand_as(x)

    def scale_factor(self) -> float | None:
        """c with IG = c x * grad s(f(x)) whenever f(a x) = f(x) for all a > 0; None where no such c exists.

        Then grad f(t x) = grad f(x) / t, so the sum over the path is sum_j w_j / t_j times the gradient at x; for
        the right rule that is H_m = 1 + 1/2 + ... + 1/m.
        """
        black = not isinstance(self.baseline, Tensor) and self.baseline == 0
        return inverse_moment(self.rule, self.steps) if black else None

    def _takes_shortcut(self, model: Model, x: Tensor) -> Tensor:
        """bool [B]: decided for each image by itself, so that the others in its batch have no say."""
        declared = self.shortcut if self.shortcut is not None else getattr(model, "scale_invariant", None)
        if self.scale_factor() is None:
            declared = False
        if declared is not None:
            return x.new_full((x.shape[0],), bool(declared), dtype=torch.bool)
        return _shows_scale_invariance(model, x.detach(), smallest=float(RULES[self.rule](self.steps)[0].min()))

    def _trace_both_ways(
        self, model: Model, x: Tensor, targets: Sequence[Target], create_graph: bool, short: Tensor
    ) -> "Trace":
        """The shortcut for the images that allow it, the long way for the others, put together again."""
        parts = []
        for rows, way in ((short.nonzero().flatten(), True), ((~short).nonzero().flatten(), False)):
            there = [(score, y[rows]) for score, y in targets]
            one = self._one_gradient(model, x[rows], there, create_graph) if way else None
            parts.append((rows, one or self._walk(model, None, x[rows], there, create_graph)))
        order = torch.cat([rows for rows, _ in parts]).argsort()
        maps = [torch.cat(pieces)[order] for pieces in zip(*(trace.maps for _, trace in parts), strict=True)]
        ends = [trace.end_logits for _, trace in parts]
        logits = None if any(end is None for end in ends) else torch.cat([e for e in ends if e is not None])[order]
        return Trace(maps, logits)

    def _one_gradient(self, model: Model, x: Tensor, targets: Sequence[Target], create_graph: bool) -> "Trace":
        factor = self.scale_factor()
        assert factor is not None  # __post_init__ and _takes_shortcut let nothing else through
        found = averaged_gradients(
            model,
            x,
            targets,
            place=lambda rows, js: x[None, rows],
            weights=x.new_ones(1),
            create_graph=create_graph,
            chunk=self.chunk,
        )
        return Trace([factor * x * g for g in found.gradients], found.last_logits)


@dataclass(frozen=True)
class Trace:
    """Maps along one path, and the logits at its end where the path goes through it."""

    maps: list[Tensor]
    end_logits: Tensor | None


def _shows_scale_invariance(model: Model, x: Tensor, smallest: float) -> Tensor:
    """The numerical test, on one made-up image first: most networks fail it at once and pay for no more than that."""
    scales = (0.5, 0.1, smallest)
    probe = rng.uniform(torch.zeros(1, dtype=torch.int64, device=x.device), x[:1])
    if not is_scale_invariant(model, probe, scales=scales):
        return torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
    parts = [scale_invariant_images(model, x[part], scales=scales) for part in slices(x.shape[0], images_per_pass(x))]
    return torch.cat(parts)
