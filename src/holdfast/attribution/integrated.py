"""Integrated gradients (Sundararajan et al. 2017; Eq. 1 of the paper).

    IG(x0, x) = (x - x0) * sum_j w_j grad s(f(x0 + t_j (x - x0)))

with points t_j and weights w_j of a quadrature rule; the paper's is `right`, t_k = k/m.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.engine import Target, averaged_gradients, check_logits
from holdfast.attribution.quadrature import inverse_moment, nodes
from holdfast.attribution.scores import true_logit
from holdfast.errors import expected
from holdfast.models.scale import is_scale_invariant
from holdfast.ops import flatten
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
        if self.shortcut and self.scale_factor() is None:
            raise expected("a zero baseline and a rule without a point at 0 for the shortcut", got=self)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        return self.many(model, x, [(self.score, y)], create_graph=create_graph)[0]

    def many(self, model: Model, x: Tensor, targets: Sequence[Target], *, create_graph: bool = False) -> list[Tensor]:
        """One map for each (score, labels) of `targets`; all share the forward passes."""
        if self._takes_shortcut(model, x):
            return self._one_gradient(model, x, targets, create_graph)
        return self._path(model, self.start(x), x, targets, create_graph)

    def between(self, model: Model, x: Tensor, x_adv: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
        """IG(x, x'): the path from x to x' instead of from the baseline."""
        return self._path(model, x, x_adv, [(self.score, y)], create_graph)[0]

    def completeness_gap(self, model: Model, x: Tensor, y: Tensor, attribution: Tensor | None = None) -> Tensor:
        """sum_i IG_i - (s(f(x)) - s(f(x0))), [B]: zero for the exact integral, so it measures the quadrature error."""
        total = flatten(self(model, x, y) if attribution is None else attribution).sum(1)
        with torch.no_grad():
            ends = [self.score(check_logits(model(end), x), y) for end in (x, self.start(x))]
        return total - (ends[0] - ends[1])

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

    def _takes_shortcut(self, model: Model, x: Tensor) -> bool:
        if self.shortcut is not None:
            return self.shortcut
        if self.scale_factor() is None or x.shape[0] == 0:
            return False
        declared = getattr(model, "scale_invariant", None)
        return _shows_scale_invariance(model, x) if declared is None else bool(declared)

    def _one_gradient(self, model: Model, x: Tensor, targets: Sequence[Target], create_graph: bool) -> list[Tensor]:
        factor = self.scale_factor()
        assert factor is not None  # __post_init__ and _takes_shortcut let nothing else through
        gradients = averaged_gradients(
            model,
            x,
            targets,
            place=lambda rows, js: x[None, rows],
            weights=x.new_ones(1),
            create_graph=create_graph,
            chunk=self.chunk,
        )
        return [factor * x * g for g in gradients]

    def _path(
        self, model: Model, start: Tensor, end: Tensor, targets: Sequence[Target], create_graph: bool
    ) -> list[Tensor]:
        t, weights = nodes(self.rule, self.steps, end)
        way = end - start
        t_column = t.reshape(-1, *([1] * end.dim()))
        gradients = averaged_gradients(
            model,
            end,
            targets,
            place=lambda rows, js: start[rows] + t_column[js] * way[rows],
            weights=weights,
            create_graph=create_graph,
            chunk=self.chunk,
        )
        return [way * g for g in gradients]


def _shows_scale_invariance(model: Model, x: Tensor) -> bool:
    """The numerical test, on one image first: most networks fail it at once and pay for no more than that."""
    x = x.detach()
    bright = x[flatten(x).abs().amax(1) > 0]
    if bright.shape[0] == 0:
        return False
    return is_scale_invariant(model, bright[:1]) and is_scale_invariant(model, bright)
