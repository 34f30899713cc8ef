"""The registry of metrics. To add one, write its file and add an entry to `METRICS`.

This module does not load PyTorch, so that rows, tables and reports can derive their columns from this registry.
"""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

Unit = Literal["percent", "number"]
Level = Literal["headline", "table", "row"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric that compares two maps: its name, its function, and the value that means "unchanged".

    `function` takes two batches of maps [B, H, W], and `k` if it has such a parameter, and returns float64 [B]. It is a
    callable or a string `package.module:name`, which is loaded on first use. `best` is the value for two equal maps and
    one end of `range`; the other end is the most damage. `level` decides where the metric is shown: `headline` metrics
    have box plots and paired differences, `table` metrics have a column in the tables, and `row` metrics appear only in
    the rows. `chance` is a function of (height, width, k) that returns the expected value for two random maps, None if
    that depends on more than their ranking. `swapped` names the metric with the same value for (b, a) as this one for
    (a, b); it is empty for a symmetric metric.
    """

    name: str
    title: str
    function: str | Callable[..., Any]
    best: float = 1.0
    range: tuple[float, float] = (-1.0, 1.0)
    unit: Unit = "number"
    level: Level = "table"
    long_title: str = ""
    phrase: str = ""
    chance: str | Callable[[int, int, int], float] | None = None
    swapped: str = ""

    @property
    def in_text(self) -> str:
        """The name used inside a sentence."""
        return self.phrase or self.title

    def __call__(self, a: "Tensor", b: "Tensor", *, k: int) -> "Tensor":
        """The metric of two batches of maps [B, H, W]; `k` is passed on to metrics that take it."""
        function = _load(self.function) if isinstance(self.function, str) else self.function
        options = {"k": k} if "k" in inspect.signature(function).parameters else {}
        value: Tensor = function(a, b, **options)
        return value

    def by_chance(self, height: int, width: int, k: int) -> float | None:
        """The expected value for two random maps of this size, None if it is not known.

        >>> METRICS["top_k"].by_chance(10, 10, k=20)
        0.2
        """
        function = _load(self.chance) if isinstance(self.chance, str) else self.chance
        return None if function is None else float(function(height, width, k))

    @property
    def is_distance(self) -> bool:
        """Whether larger values mean more damage."""
        return self.best <= self.range[0]

    def worst(self, values: Iterable[float]) -> float | None:
        """The value with the most damage, or None without values."""
        return max(values, default=None) if self.is_distance else min(values, default=None)

    @property
    def packed(self) -> bool:
        """Whether all values lie in [-1, 1]; the report page stores such values in 16 bits."""
        return self.range[0] >= -1 and self.range[1] <= 1


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="top_k",
            title="Top-k",
            long_title="Top-k intersection",
            phrase="top-k",
            function="holdfast.metrics.top_k:top_k_intersection",
            range=(0.0, 1.0),
            unit="percent",
            level="headline",
            chance="holdfast.metrics.chance:top_k",
        ),
        Metric(
            name="kendall",
            title="Kendall",
            long_title="Kendall's rank correlation",
            function="holdfast.metrics.rank_correlation:kendall_tau",
            level="headline",
            chance="holdfast.metrics.chance:zero",
        ),
        Metric(
            name="spearman",
            title="Spearman",
            function="holdfast.metrics.rank_correlation:spearman_rho",
            chance="holdfast.metrics.chance:zero",
        ),
        Metric(name="cosine", title="Cosine", function="holdfast.metrics.cosine:cosine_similarity", level="row"),
        Metric(
            name="center_shift",
            title="Centre shift",
            function="holdfast.metrics.center:center_shift",
            best=0.0,
            range=(0.0, math.inf),
            level="row",
        ),
        Metric(
            name="lens_recall",
            title="LENS recall",
            long_title="LENS recall, radius 1",
            function="holdfast.metrics.lens:lens_recall",
            range=(0.0, 1.0),
            unit="percent",
            chance="holdfast.metrics.chance:lens",
            swapped="lens_precision",
        ),
        Metric(
            name="lens_precision",
            title="LENS precision",
            long_title="LENS precision, radius 1",
            function="holdfast.metrics.lens:lens_precision",
            range=(0.0, 1.0),
            unit="percent",
            chance="holdfast.metrics.chance:lens",
            swapped="lens_recall",
        ),
        Metric(
            name="ssim",
            title="SSIM",
            long_title="Structural similarity",
            function="holdfast.metrics.structural_similarity:ssim",
        ),
        Metric(
            name="pearson",
            title="Pearson",
            function="holdfast.metrics.pearson:pearson_r",
            level="row",
            chance="holdfast.metrics.chance:zero",
        ),
        Metric(
            name="mse",
            title="MSE",
            long_title="Mean squared error of maps divided by their maximum",
            function="holdfast.metrics.mse:mean_squared_error",
            best=0.0,
            range=(0.0, 1.0),
            level="row",
        ),
    )
}
"""All metrics by name, in the order of the tables."""


def shown(*levels: Level) -> tuple[Metric, ...]:
    """The metrics of the given levels, in the order of the registry.

    >>> [metric.name for metric in shown("headline")]
    ['top_k', 'kendall']
    """
    return tuple(metric for metric in METRICS.values() if metric.level in levels)


def _load(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
