"""Paired comparison of each run with the baseline run of its dataset, as numbers and as a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.metrics.registry import METRICS, shown
from holdfast.report.view import RunView, decisive_attack
from holdfast.runs import Bootstrap, Difference, ExampleRow, metrics_of, paired_difference

ENOUGH = 0.5
"""Minimum share of images that two runs must have in common; runs with different seeds use different images."""
_BASES = ("natural", "standard")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One run compared with the baseline run of its dataset, under one attack."""

    run: RunView
    base: RunView
    attack: str
    differences: dict[str, Difference]

    def sentence(self) -> str:
        """The differences as one sentence."""
        parts = [_phrase(name, difference) for name, difference in self.differences.items()]
        return (
            f"{self.run.label} minus {self.base.label} under {self.attack}, mean paired difference: {'; '.join(parts)}."
        )


def pick_base(views: Sequence[RunView]) -> RunView | None:
    """The baseline: the naturally trained run with rows, else the first run with rows; None if no run has rows."""
    candidates = [view for view in views if view.run.examples.rows]
    natural = [view for view in candidates if view.method.lower() in _BASES]
    return next(iter(natural or candidates), None)


def compare(views: Sequence[RunView], *, bootstrap: Bootstrap | None = None) -> dict[str, Comparison]:
    """Label -> comparison with the baseline, for the runs of one dataset that share examples with it."""
    base, attack = pick_base(views), decisive_attack(views)
    if base is None or not attack:
        return {}
    found = {}
    for view in views:
        rows = () if view is base else view.run.rows_of(attack)
        differences = differences_of(base.run.rows_of(attack), rows, bootstrap=bootstrap)
        if differences:
            found[view.label] = Comparison(run=view, base=base, attack=attack, differences=differences)
    return found


def differences_of(
    before: Sequence[ExampleRow], after: Sequence[ExampleRow], *, bootstrap: Bootstrap | None = None
) -> dict[str, Difference]:
    """Metric -> paired difference `after` minus `before`, under one attack; empty if they share too few images."""
    shared = {row.id for row in before} & {row.id for row in after}
    if not shared or len(shared) < ENOUGH * min(len(before), len(after)):
        return {}
    both = set(metrics_of(before)) & set(metrics_of(after))
    compared = [metric.name for metric in shown("headline") if metric.name in both]
    found = {name: paired_difference(before, after, name, bootstrap=bootstrap) for name in compared}
    return found if any(difference.n for difference in found.values()) else {}


def _phrase(name: str, difference: Difference) -> str:
    metric = METRICS[name]
    title = metric.in_text
    if difference.mean is None or difference.mean_ci95 is None:
        return f"{title}: no examples in common"
    scale, unit, digits = (100, " points", 1) if metric.unit == "percent" else (1, "", 3)
    low, high = (f"{end * scale:+.{digits}f}" for end in difference.mean_ci95)
    said = f"{title} {difference.mean * scale:+.{digits}f}{unit} [{low}, {high}], n = {difference.n:,} pairs"
    return f"{said} (the interval includes zero, so this may be chance)" if difference.includes_zero else said
