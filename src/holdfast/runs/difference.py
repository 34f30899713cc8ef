"""Paired difference between two runs on the same examples, with its confidence interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.errors import expected
from holdfast.runs.bootstrap import Bootstrap, Interval
from holdfast.runs.conventions import Convention, metric_values
from holdfast.runs.rows import ExampleRow


@dataclass(frozen=True, kw_only=True)
class Difference:
    """b minus a over the n examples that both runs have; `unpaired` counts the examples that only one run has."""

    metric: str
    median: float | None
    ci95: Interval | None
    mean: float | None
    mean_ci95: Interval | None
    n: int
    unpaired: int

    @property
    def includes_zero(self) -> bool:
        """Whether the interval of the mean difference includes zero; also True if there is no interval."""
        return self.mean_ci95 is None or self.mean_ci95[0] <= 0 <= self.mean_ci95[1]


def paired_difference(
    rows_a: Sequence[ExampleRow],
    rows_b: Sequence[ExampleRow],
    metric: str,
    *,
    convention: Convention = "failure_is_1",
    bootstrap: Bootstrap | None = None,
) -> Difference:
    """median(b) - median(a) and mean(b - a) of the rows of one attack, paired by example id.

    An example misclassified by either model has no value for that model and is excluded from both sides.
    """
    for rows in (rows_a, rows_b):
        if len({row.attack for row in rows}) > 1:
            raise expected(
                "rows of one attack", got=sorted({row.attack for row in rows}), fix="filter them by row.attack"
            )
    ids_a, values_a = metric_values(rows_a, metric, convention)
    ids_b, values_b = metric_values(rows_b, metric, convention)
    shared, at_a, at_b = np.intersect1d(ids_a, ids_b, assume_unique=True, return_indices=True)
    a, b = values_a[at_a], values_b[at_b]
    intervals = (bootstrap or Bootstrap()).paired(a, b)
    return Difference(
        metric=metric,
        median=float(np.median(b) - np.median(a)) if len(shared) else None,
        ci95=intervals[0] if intervals else None,
        mean=float((b - a).mean()) if len(shared) else None,
        mean_ci95=intervals[1] if intervals else None,
        n=len(shared),
        unpaired=len(ids_a) + len(ids_b) - 2 * len(shared),
    )
