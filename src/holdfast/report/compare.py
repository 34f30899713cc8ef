"""How each run differs from the plain one on the same examples, and what may be said about it in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.metrics.registry import METRICS, shown
from holdfast.report.view import RunView, decisive_attack
from holdfast.runs import Bootstrap, Difference, ExampleRow, metrics_of, paired_difference

ENOUGH = 0.5
"""Share of the images that two runs must have in common; runs of two seeds are measured on other images."""
_BASES = ("natural", "standard")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One run against the base of its dataset, under one attack."""

    run: RunView
    base: RunView
    attack: str
    differences: dict[str, Difference]

    def sentence(self) -> str:
        """What the two differences allow one to say."""
        parts = [_phrase(name, difference) for name, difference in self.differences.items()]
        return f"{self.run.label} against {self.base.label} under {self.attack}: {'; '.join(parts)}."


def pick_base(views: Sequence[RunView]) -> RunView | None:
    """The naturally trained run with rows, else the first with rows; None if none has rows."""
    candidates = [view for view in views if view.run.examples.rows]
    natural = [view for view in candidates if view.method.lower() in _BASES]
    return next(iter(natural or candidates), None)


def compare(views: Sequence[RunView], *, bootstrap: Bootstrap | None = None) -> dict[str, Comparison]:
    """Label -> comparison with the base, for the runs of one dataset that share examples with it."""
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
    """Metric -> `after` less `before`, of one attack each; empty unless they share enough images."""
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
    if difference.median is None or difference.ci95 is None:
        return f"{title} has no example in common"
    scale, unit, digits = (100, " points", 1) if metric.unit == "percent" else (1, "", 3)
    low, high = (f"{end * scale:+.{digits}f}" for end in difference.ci95)
    said = f"{title} {difference.median * scale:+.{digits}f}{unit} [{low}, {high}], n = {difference.n:,} pairs"
    return f"{said} (the interval includes zero, so this may be chance)" if difference.includes_zero else said
