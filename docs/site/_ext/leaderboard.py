"""The directive `leaderboard`: one sortable table of all measured runs under `results/`, made during the build.

Values come from the `summary.json` of each run through `holdfast.report`, with interval and n; nothing is typed in.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.metrics.registry import METRICS
from holdfast.report.render import format_interval, format_number, sign
from holdfast.report.tables import Cell, Unit
from holdfast.report.view import RunView, Stat, view_runs
from holdfast.runs import find_runs
from holdfast.runs.names import CONTROL, DECISIVE, ENSEMBLE, REFERENCE, STRONGEST, TRUE_LOGIT, control_of
from holdfast.runs.verdict import decisive

RESULTS = Path(__file__).parents[3] / "results"
ATTACKS = {
    CONTROL: "Random noise",
    REFERENCE: "Reference attack",
    ENSEMBLE: "Ensemble of 8",
    STRONGEST: "Strongest attack",
    TRUE_LOGIT: "Strongest, true logit",
}
"""Attack -> title of its columns, which are shown if some run has it; noise is that of the attack that decides."""
MAPS = ("top_k", "kendall")


@dataclass(frozen=True)
class Column:
    """A column: its group, its title, its unit, and how a run fills it."""

    group: str
    title: str
    unit: Unit
    cell: Callable[[RunView], Cell]


def _map(attack: str, metric: str) -> Callable[[RunView], Cell]:
    def cell(view: RunView) -> Cell:
        name = measured_as(view, attack)
        return _cell(view.attacks[name].metrics[metric]) if name in view.attacks else Cell()

    return cell


def measured_as(view: RunView, attack: str) -> str:
    """The attack of a run that fills the columns of `attack`."""
    return control_of(decisive(view.attacks), view.attacks) if attack == CONTROL else attack


def _method(view: RunView) -> str:
    return view.method if view.seed == "0" else f"{view.method}, seed {view.seed}"


def _passes(view: RunView) -> Cell:
    return Cell(value=None if view.example_passes is None else view.example_passes / 1e6)


def _minutes(view: RunView) -> Cell:
    return Cell(value=None if view.train_seconds is None else round(view.train_seconds / 60))


RUN = (
    Column("Run", "Method", "text", lambda view: Cell(value=_method(view))),
    Column("Run", "Dataset", "text", lambda view: Cell(value=view.dataset)),
    Column("Run", "Network", "text", lambda view: Cell(value=view.network)),
    Column("Accuracy", "Natural", "percent", lambda view: _cell(view.natural)),
    Column("Accuracy", "PGD", "percent", lambda view: _cell(view.pgd)),
)
APGD = Column("Accuracy", "APGD", "percent", lambda view: _cell(view.apgd))
"""Shown if some run has it."""
COST = (
    Column("Training", "10\N{SUPERSCRIPT SIX} passes", "number", _passes),
    Column("Training", "Minutes", "count", _minutes),
)


def columns(views: Sequence[RunView]) -> tuple[Column, ...]:
    """The columns of a table of these runs."""
    maps = [
        Column(title, METRICS[metric].title, METRICS[metric].unit, _map(attack, metric))
        for attack, title in ATTACKS.items()
        if any(measured_as(view, attack) in view.attacks for view in views)
        for metric in MAPS
    ]
    apgd = [APGD] if any(view.apgd.median is not None for view in views) else []
    return (*RUN, *apgd, *maps, *COST)


def measured_runs(results: Path = RESULTS) -> list[RunView]:
    """The runs that have been measured, by dataset; in each, the most robust maps first."""
    runs, _ = find_runs([folder for folder in sorted(results.iterdir()) if folder.is_dir()])
    views = [view for view in view_runs([run for run in runs if run.summary]) if view.attacks]
    return sorted(views, key=lambda view: (view.dataset, -(_strength(view) or 0)))


def table_html(views: Sequence[RunView]) -> str:
    """The table, with the value to sort by in `data-value` of each cell."""
    shown = columns(views)
    groups = list(dict.fromkeys(column.group for column in shown))
    spans = [sum(column.group == group for column in shown) for group in groups]
    tops = "".join(
        f'<th colspan="{span}" scope="colgroup">{html.escape(g)}</th>' for g, span in zip(groups, spans, strict=True)
    )
    heads = "".join(
        f'<th scope="col" data-kind="{"text" if column.unit == "text" else "number"}">{html.escape(column.title)}</th>'
        for column in shown
    )
    rows = "\n".join(f'<tr data-dataset="{html.escape(v.dataset)}">{_row(v, shown)}</tr>' for v in views)
    return (
        '<div class="leaderboard-frame" tabindex="0" role="region" aria-label="Leaderboard">'
        f'<table class="leaderboard"><thead><tr class="groups">{tops}</tr><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(view: RunView, shown: Sequence[Column]) -> str:
    return "".join(_cell_html(column.cell(view), column) for column in shown)


def _cell_html(cell: Cell, column: Column) -> str:
    if cell.value is None:
        return '<td class="number" data-value="">-</td>'
    if isinstance(cell.value, str):
        return f'<td data-value="{html.escape(cell.value)}">{html.escape(cell.value)}</td>'
    digits = 1 if column.cell is _passes else None
    shown = format_number(cell.value, column.unit, digits=digits) + sign(column.unit)
    interval = f"<small>{format_interval(cell, column.unit)}</small>" if cell.ci95 else ""
    n = f' title="n = {cell.n:,}"' if cell.n else ""
    return f'<td class="number" data-value="{cell.value!r}"{n}>{shown}{interval}</td>'


def _cell(stat: Stat) -> Cell:
    return Cell(value=stat.median, ci95=stat.ci95, n=stat.n or None)


def _strength(view: RunView) -> float | None:
    attack = next((view.attacks[name] for name in (*DECISIVE, REFERENCE) if name in view.attacks), None)
    return attack.metrics["kendall"].median if attack else None


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class Leaderboard(SphinxDirective):
        """```{leaderboard}``` without arguments."""

        def run(self) -> list[nodes.Node]:
            for path in RESULTS.glob("*/*/summary.json"):
                self.env.note_dependency(str(path))
            return [nodes.raw("", table_html(measured_runs()), format="html")]

    app.add_directive("leaderboard", Leaderboard)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
