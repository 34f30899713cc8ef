"""The three conventions for failed attacks found in published code.

- `failure_is_1`: the map counts as unmoved (similarity 1, centre shift 0). Chen et al. (RAR), the authors of the ERAR
  paper and Ghorbani et al. use this convention; it is the reference and the default here.
- `dropped`: the example is excluded from the average. Singh et al. (ART) use this convention.
- `worst`: the example gets the worst value observed among the attacked examples of the same attack (the smallest
  similarity, the largest centre shift): the most that a better attack would plausibly have reached. Without any
  attacked example there is no such value, and the average is not available.

Misclassified examples are not attacked and are excluded from all averages under every convention.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import expected
from holdfast.metrics.registry import METRICS
from holdfast.runs.bootstrap import Values
from holdfast.runs.rows import ExampleRow, Outcome

Convention = Literal["failure_is_1", "dropped", "worst"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)

FAILED: tuple[Outcome, ...] = ("label_lost", "unmoved", "nan_map")
"""Outcomes that count as a failed attack; the reference code never keeps such an iterate."""


def metric_values(
    rows: Sequence[ExampleRow], metric: str, convention: Convention = "failure_is_1"
) -> tuple[NDArray[np.int64], Values]:
    """Ids [n] and values [n] of the rows of one attack under a convention, in the order of the rows."""
    if metric not in METRICS:
        raise expected(f"metric in {', '.join(METRICS)}", got=repr(metric))
    attacked = {row.id: v for row in rows if row.outcome == "attacked" and (v := row.score(metric)) is not None}
    stand_in = _stand_in(list(attacked.values()), metric, convention)
    values = dict(attacked)
    if stand_in is not None:
        values |= {row.id: stand_in for row in rows if row.outcome in FAILED}
    ids = [row.id for row in rows if row.id in values]
    return np.array(ids, np.int64), np.array([values[i] for i in ids], np.float64)


def _stand_in(attacked: list[float], metric: str, convention: Convention) -> float | None:
    """The value of a failed attack, or None to exclude it."""
    if convention == "failure_is_1":
        return METRICS[metric].best
    return METRICS[metric].worst(attacked) if convention == "worst" else None
