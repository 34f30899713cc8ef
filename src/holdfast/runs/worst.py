"""The worst result of several attacks for each example."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from holdfast.metrics.registry import METRICS
from holdfast.runs.rows import ExampleRow, metrics_of


def worst_rows(rows: Sequence[ExampleRow], attacks: Collection[str]) -> tuple[ExampleRow, ...]:
    """One row per example on which all these attacks were tried, with the worst value of each metric.

    >>> made = [ExampleRow(attack=a, id=1, label=0, prediction=0, outcome="attacked", scores={"top_k": k})
    ...         for a, k in (("one", 0.5), ("two", 0.4))]
    >>> worst_rows(made, ["one", "two"])[0].score("top_k")
    0.4
    """
    tried: dict[int, list[ExampleRow]] = {}
    for row in rows:
        if row.attack in attacks:
            tried.setdefault(row.id, []).append(row)
    return tuple(_worst(group) for group in tried.values() if len(group) == len(attacks))


def _worst(group: Sequence[ExampleRow]) -> ExampleRow:
    moved = [row for row in group if row.outcome == "attacked"]
    found: dict[str, float | None] = {}
    for metric in metrics_of(group):
        values = [value for row in moved if (value := row.score(metric)) is not None]
        found[metric] = METRICS[metric].worst(values)
    return replace((moved or group)[0], attack=" + ".join(row.attack for row in group), scores=found, controls={})
