"""The most damaging images found so far, one per headline metric and example."""

import torch
from torch import Tensor

from holdfast.attacks.problem import Problem
from holdfast.attribution.base import GradientMap
from holdfast.attribution.saliency import map_of
from holdfast.metrics.registry import METRICS
from holdfast.types import Attribution

HEADLINES = tuple(name for name, metric in METRICS.items() if metric.level == "headline")
"""The metrics that are reported first. A search keeps the worst image for each of them."""


class Worst:
    """Judges candidate images by the network's own map and keeps, per example and headline metric, the worst one.

    The map of a candidate is computed with `points` points (integrated gradients and SmoothGrad need many more for the
    final scores). `values` and `images` hold the worst value and image per metric, `names` who found it, and `kept`
    how many candidates kept the label.
    """

    def __init__(self, problem: Problem, k: int, points: int) -> None:
        self.problem, self.k = problem, k
        self.judge = cheaper(problem.attribution, points)
        self.clean = self._maps(problem, problem.x)
        self.values = {name: self._scores(name, self.clean, self.clean) for name in HEADLINES}
        self.images = {name: problem.x.clone() for name in HEADLINES}
        self.names = {name: [""] * len(problem) for name in HEADLINES}
        self.kept = torch.zeros_like(problem.y)

    def offer(self, x_adv: Tensor, name: str, rows: Tensor | None = None) -> dict[str, Tensor]:
        """Judge candidates for `rows` (an index, all by default); returns their values per metric, 1 if not allowed."""
        rows = torch.arange(len(self.problem), device=x_adv.device) if rows is None else rows
        some = self.problem.rows(rows)
        x_adv = some.allowed(x_adv.detach())
        keeps = some.labels(x_adv) == some.y
        self.kept[rows] += keeps
        found = {metric: torch.ones(len(rows), dtype=torch.float64) for metric in HEADLINES}
        if bool(keeps.any()):
            shown = self._maps(some.rows(keeps), x_adv[keeps])
            for metric in HEADLINES:
                found[metric][keeps] = self._scores(metric, self.clean[rows[keeps]], shown)
                self._keep(metric, rows, x_adv, found[metric], name)
        return found

    def _keep(self, metric: str, rows: Tensor, x_adv: Tensor, values: Tensor, name: str) -> None:
        better = values < self.values[metric][rows]  # NaN, for maps without a ranking, is never better
        chosen = rows[better]
        self.values[metric][chosen] = values[better]
        self.images[metric][chosen] = x_adv[better]
        for row in chosen.tolist():
            self.names[metric][row] = name

    def _maps(self, problem: Problem, x: Tensor) -> Tensor:
        return map_of(problem.model, x, problem.y, self.judge).detach()

    def _scores(self, metric: str, clean: Tensor, shown: Tensor) -> Tensor:
        return METRICS[metric](clean, shown, k=self.k)


def cheaper(attribution: Attribution, points: int) -> Attribution:
    """The same map with at most `points` points, if it has a number of points to reduce."""
    if isinstance(attribution, GradientMap) and attribution.points > points:
        return attribution.with_points(points)
    return attribution
