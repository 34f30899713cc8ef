"""Tables as data: each cell has a value, its interval, its n and the paper's number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.metrics.registry import METRICS, Level, Metric, shown
from holdfast.report.compare import Comparison
from holdfast.report.paper_values import WIDE, is_wide, paper_value
from holdfast.report.view import AttackView, RunView, Stat
from holdfast.runs import OUTCOMES
from holdfast.runs.bootstrap import Interval
from holdfast.runs.names import CONTROLS, HEADLINES, REFERENCE, attack_of, map_of
from holdfast.runs.summary import REASONS

Unit = Literal["text", "count", "percent", "number", "points"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: its key in the CSV file, its title and its unit."""

    key: str
    title: str
    unit: Unit


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell; percentages and points are stored as fractions in [0, 1]."""

    value: str | float | None = None
    ci95: Interval | None = None
    n: int | None = None
    paper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells with a title, and notes shown below the table."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


_SHARES = {
    "natural_accuracy": Column(key="natural_accuracy", title="Nat. acc.", unit="percent"),
    "pgd_accuracy": Column(key="pgd_accuracy", title="PGD acc.", unit="percent"),
    "apgd_accuracy": Column(key="apgd_accuracy", title="APGD acc.", unit="percent"),
}
METHOD = Column(key="method", title="Method", unit="text")
ATTACK = Column(key="attack", title="Attack", unit="text")
COUNT = Column(key="n", title="n", unit="count")
_FIRST = (METHOD, Column(key="preset", title="Preset", unit="text"), ATTACK, COUNT)
_FAILED = Column(key="failed_share", title="Failed", unit="percent")
CONVENTION_TITLES = {"failure_is_1": "failed = 1", "dropped": "failed dropped", "worst": "failed = worst"}

OUTCOME_TITLES = {
    "attacked": "Attacked",
    "misclassified": "Misclassified",
    "label_lost": "Label lost",
    "unmoved": "Unmoved",
    "nan_map": "Undefined map",
}
CHANCE = "two random maps"
"""Name of the row with the values of chance."""


def metric_column(metric: Metric) -> Column:
    """The column of one metric."""
    return Column(key=metric.name, title=metric.title, unit=metric.unit)


def metric_columns(views: Sequence[RunView]) -> list[Column]:
    """One column per table metric that some run has measured."""
    return [metric_column(metric) for metric in measured(views, "headline", "table")]


def measured(views: Sequence[RunView], *levels: Level) -> list[Metric]:
    """The metrics of the given levels that some run has measured; all of them if no run is evaluated."""
    names = {name for view in views for attack in view.attacks.values() for name in attack.metrics}
    return [metric for metric in shown(*levels) if not names or metric.name in names]


def results_table(views: Sequence[RunView], comparisons: Mapping[str, Comparison] | None = None) -> Table:
    """The main table for one dataset: one row per method and attack, including the random control."""
    against = comparisons or {}
    columns = (*_FIRST, *_accuracy_columns(views), *metric_columns(views), _FAILED)
    if against:
        base = next(iter(against.values())).base.label
        columns = (*columns, Column(key="top_k_difference", title=f"Top-k vs {base} (points)", unit="points"))
    rows = [_result_row(view, attack, against, columns) for view in views for attack in ordered(view.attacks)]
    rows += [_unevaluated_row(view, columns) for view in views if not view.attacks]
    rows += _chance_rows(views, columns)
    dataset = views[0].group if views else ""
    notes = _notes(views, has_paper=_has_paper(rows))
    if against:
        notes = (
            *notes,
            f"Top-k vs {base}: mean paired difference [95 % interval] over the images that both runs have.",
        )
    title = f"Results on {dataset}{_wide_network(views)}"
    return Table(name=f"results-{dataset}", title=title, columns=columns, rows=tuple(rows), notes=notes)


def _wide_network(views: Sequence[RunView]) -> str:
    """The wide network of a table, with the paper's if it is another one; empty for the small networks."""
    names = sorted({view.network for view in views if is_wide(view.network)})
    paper = f", the paper's values with {WIDE.upper()}" if names and names != [WIDE] else ""
    return f" with {', '.join(names)}{paper}" if names else ""


def _accuracy_columns(views: Sequence[RunView]) -> list[Column]:
    """Natural and PGD accuracy, and accuracy under APGD if some run has measured it."""
    under_apgd = any(view.apgd.median is not None for view in views)
    return [column for key, column in _SHARES.items() if key != "apgd_accuracy" or under_apgd]


def conventions_table(views: Sequence[RunView]) -> Table:
    """Top-k and Kendall if a failed attack counts as 1, is dropped, or counts as the worst observed value."""
    pairs = [(metric.name, name) for metric in measured(views, "headline") for name in CONVENTION_TITLES]
    columns = (METHOD, ATTACK, *(_convention_column(metric, name) for metric, name in pairs))
    rows = [
        (Cell(value=view.label), Cell(value=attack.name), *(_under(attack, name, metric) for metric, name in pairs))
        for view in views
        for attack in ordered(view.attacks)
    ]
    note = "Median [95 % interval]. 'worst' is the worst value among the attacked examples of the same attack."
    return Table(
        name="conventions", title="Conventions for failed attacks", columns=columns, rows=tuple(rows), notes=(note,)
    )


def exclusions_table(views: Sequence[RunView]) -> Table:
    """Number of examples per outcome; the notes explain the outcomes."""
    outcomes = [Column(key=name, title=OUTCOME_TITLES[name], unit="count") for name in OUTCOMES]
    columns = (METHOD, ATTACK, Column(key="rows", title="Examples", unit="count"), *outcomes)
    rows = []
    for view in views:
        for attack in ordered(view.attacks):
            counts = [attack.outcomes.get(name, 0) for name in OUTCOMES]
            names = (Cell(value=view.label), Cell(value=attack.name))
            rows.append((*names, *(Cell(value=count) for count in (sum(counts), *counts))))
    notes = [f"{OUTCOME_TITLES[name]}: {why}." for name, why in REASONS.items()]
    return Table(
        name="exclusions", title="Exclusions", columns=columns, rows=tuple(rows), notes=(*notes, *_unmeasured(views))
    )


def _unmeasured(views: Sequence[RunView]) -> list[str]:
    """Exclusions that are not outcomes of the attack, as sentences."""
    return [
        f"{view.label}, {attack.name}: {n:,} examples: {reason}."
        for view in views
        for attack in ordered(view.attacks)
        for reason, n in attack.exclusions
        if reason.split(":")[0] not in OUTCOMES
    ]


def ordered(attacks: Mapping[str, AttackView]) -> list[AttackView]:
    """The attacks in order: the paper's attack, the ensemble, others as in the summary, the controls; map by map."""
    last = len(HEADLINES)
    places = {name: place for place, name in enumerate(HEADLINES)}
    places |= {name: place for place, name in enumerate(CONTROLS, last + 1)}
    maps = list(dict.fromkeys(map_of(name) for name in attacks))
    found = sorted(attacks.values(), key=lambda attack: places.get(attack_of(attack.name), last))
    return sorted(found, key=lambda attack: maps.index(map_of(attack.name)))


def _result_row(
    view: RunView, attack: AttackView, against: Mapping[str, Comparison], columns: Sequence[Column]
) -> tuple[Cell, ...]:
    first = attack is ordered(view.attacks)[0]
    on_paper = attack.name == REFERENCE
    cells = {
        "method": Cell(value=view.label),
        "preset": Cell(value=view.preset),
        "attack": Cell(value=attack.name),
        "n": Cell(value=attack.metrics["top_k"].n if "top_k" in attack.metrics else view.n),
        "failed_share": stat_cell(attack.failed),
        "top_k_difference": _difference_cell(against.get(view.label), attack),
    }
    if first:
        cells |= {
            "natural_accuracy": stat_cell(view.natural, paper=paper_of(view, "natural_accuracy")),
            "pgd_accuracy": stat_cell(view.pgd, paper=paper_of(view, "pgd_accuracy")),
            "apgd_accuracy": stat_cell(view.apgd),
        }
    for metric in METRICS:
        cells[metric] = stat_cell(
            attack.metrics.get(metric, Stat()), paper=paper_of(view, metric) if on_paper else None
        )
    return tuple(cells.get(column.key, Cell()) for column in columns)


def _unevaluated_row(view: RunView, columns: Sequence[Column]) -> tuple[Cell, ...]:
    cells = {"method": view.label, "preset": view.preset, "attack": "not evaluated yet"}
    return tuple(Cell(value=cells.get(column.key)) for column in columns)


def _chance_rows(views: Sequence[RunView], columns: Sequence[Column]) -> list[tuple[Cell, ...]]:
    """What two random maps would score, one row per k; a result is only worth what it exceeds this by."""
    found = {attack.k: attack.chance for view in views for attack in view.attacks.values() if attack.chance}
    rows = []
    for k, values in sorted(found.items()):
        cells = {"method": Cell(value=CHANCE), "attack": Cell(value=f"k = {k:,}")}
        cells |= {metric: Cell(value=value) for metric, value in values.items()}
        rows.append(tuple(cells.get(column.key, Cell()) for column in columns))
    return rows


def _difference_cell(comparison: Comparison | None, attack: AttackView) -> Cell:
    if comparison is None or comparison.attack != attack.name:
        return Cell()
    difference = comparison.differences["top_k"]
    return Cell(value=difference.mean, ci95=difference.mean_ci95, n=difference.n)


def stat_cell(stat: Stat, *, paper: float | None = None) -> Cell:
    """The cell of a median with its interval and n."""
    return Cell(value=stat.median, ci95=stat.ci95, n=stat.n or None, paper=paper)


def _under(attack: AttackView, convention: str, metric: str) -> Cell:
    return stat_cell(attack.conventions.get(convention, {}).get(metric, Stat()))


def _convention_column(metric: str, convention: str) -> Column:
    base = metric_column(METRICS[metric])
    return Column(key=f"{metric}_{convention}", title=f"{base.title}, {CONVENTION_TITLES[convention]}", unit=base.unit)


def paper_of(view: RunView, metric: str) -> float | None:
    """The paper's number for this run, None if there is none."""
    if view.audit is not None:  # the protocol is not the paper's, whatever the names are
        return None
    found = paper_value(dataset=view.dataset, method=view.method, metric=metric, network=view.network)
    return found.value if found else None


def _has_paper(rows: Sequence[Sequence[Cell]]) -> bool:
    return any(cell.paper is not None for row in rows for cell in row)


def _notes(views: Sequence[RunView], *, has_paper: bool) -> tuple[str, ...]:
    """Notes of the results table: the statistic, the subset, presets and seeds, and the paper."""
    found = ["Median [95 % interval] over n examples; a failed attack counts as 1. Accuracy with its Wilson interval."]
    subsets = {view.limit or f"all {view.n:,} examples evaluated" for view in views if view.n}
    found += [f"Subset: {'; '.join(sorted(subsets))}."] if subsets else []
    origins = dict.fromkeys(f"{view.label}: {view.preset}, seed {view.seed}" for view in views)
    found.append(f"Preset and seed: {'; '.join(origins)}.")
    if has_paper:
        found.append("Paper: Sarkar et al., AAAI 2021, with full training and the whole test set, without intervals.")
    return tuple(found)
