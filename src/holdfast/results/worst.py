"""The worst that any of several attacks did to each example."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from holdfast.results.conventions import worst_value
from holdfast.results.examples import METRICS, ExampleRow


def worst_rows(rows: Sequence[ExampleRow], attacks: Collection[str]) -> tuple[ExampleRow, ...]:
    """One row for each example that all these attacks have been tried on: for each metric its worst value.

    >>> made = [ExampleRow(attack=a, id=1, label=0, prediction=0, outcome="attacked", top_k=k)
    ...         for a, k in (("one", 0.5), ("two", 0.4))]
    >>> worst_rows(made, ["one", "two"])[0].top_k
    0.4
    """
    tried: dict[int, list[ExampleRow]] = {}
    for row in rows:
        if row.attack in attacks:
            tried.setdefault(row.id, []).append(row)
    return tuple(_worst(group) for group in tried.values() if len(group) == len(attacks))


def _worst(group: Sequence[ExampleRow]) -> ExampleRow:
    moved = [row for row in group if row.outcome == "attacked"]
    found: dict[str, Any] = {}
    for metric in METRICS:
        values = [value for row in moved if (value := getattr(row, metric)) is not None]
        found[metric] = worst_value(values, metric)
    return replace((moved or group)[0], attack=" + ".join(row.attack for row in group), **found)
