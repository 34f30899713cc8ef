"""Sections of the report page as formatted text and coordinates for the templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from holdfast.metrics.registry import METRICS
from holdfast.report.charts import BoxPlot, Curves
from holdfast.report.compare import Comparison
from holdfast.report.document import one_line
from holdfast.report.render import format_interval, format_number, format_paper, plain_cell, sign
from holdfast.report.tables import Cell, Column, Table, metric_column
from holdfast.report.view import RunView, decisive_attack
from holdfast.runs.bootstrap import Interval
from holdfast.runs.names import control_of

WIDTH, HEIGHT = 1000, 300
"""Size of the drawing area of a chart; the page scales it to the available width."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One formatted table cell."""

    text: str
    interval: str = ""
    paper: str = ""
    title: str = ""
    numeric: bool = False


def page_table(table: Table) -> dict[str, Any]:
    """A table for the template: column titles, rows of cells and notes."""
    return {
        "name": table.name,
        "title": table.title,
        "columns": [
            {"title": c.title, "numeric": c.unit != "text", "key": c.key, "minor": _minor(c.key)} for c in table.columns
        ],
        "rows": [[_shown(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows],
        "notes": table.notes,
    }


def _minor(key: str) -> bool:
    """Whether a column is left out on paper: the metrics besides the headline ones."""
    return key in METRICS and METRICS[key].level != "headline"


def findings(views: Sequence[RunView], comparisons: Mapping[str, Comparison]) -> list[str]:
    """Sentences about one dataset: the verdicts of audits, the baseline under attack and noise, then each run compared.

    All use the same attack, the one that decides.
    """
    attack = decisive_attack(views)
    evaluated = [view for view in views if attack in view.attacks]
    base = next(iter(comparisons.values())).base if comparisons else (evaluated[0] if evaluated else None)
    said = [f"{view.label}: {view.audit.sentence}" for view in views if view.audit is not None]
    said += [f"{view.label}: {view.maps.sentence}" for view in views if view.maps is not None]
    said += [_kept(base, attack)] if base is not None else []
    return [text for text in said if text] + [comparison.sentence() for comparison in comparisons.values()]


def page_boxes(plot: BoxPlot) -> dict[str, Any]:
    """A box plot in coordinates of the drawing area."""
    column = metric_column(METRICS[plot.metric])
    low, high = plot.domain
    return {
        "title": plot.title,
        "attack": plot.attack,
        "ticks": [{"at": _at(t, plot.domain), "text": _tick(t, column)} for t in _ticks(low, high)],
        "boxes": [
            {
                "label": box.label,
                "look": box.look,
                "control": box.control,
                "text": _stat_text(box.stat.median, column),
                "interval": format_interval(Cell(value=0, ci95=box.stat.ci95), column.unit),
                "n": f"{box.stat.n:,}",
                "beyond": box.beyond,
                "median": _at(box.stat.median or 0.0, plot.domain),
                "ci": [_at(end, plot.domain) for end in box.stat.ci95 or ()],
                "box": [_at(end, plot.domain) for end in box.stat.quartiles or (0.0, 0.0)],
                "whiskers": [_at(end, plot.domain) for end in box.whiskers],
                "outliers": [_at(value, plot.domain) for value in box.outliers],
            }
            for box in plot.boxes
        ],
    }


def page_curves(chart: Curves) -> dict[str, Any]:
    """Training curves as SVG paths."""
    return {
        "part": one_line(chart.part).replace("_", " "),
        "log": chart.log,
        "low": _short(chart.domain[0]),
        "high": _short(chart.domain[1]),
        "first": f"{chart.steps[0]:,.0f}",
        "last": f"{chart.steps[1]:,.0f}",
        "curves": [
            {"label": curve.label, "look": curve.look, "path": _path(curve.steps, curve.values, chart)}
            for curve in chart.curves
        ],
    }


def page_provenance(view: RunView) -> dict[str, Any]:
    """The provenance of one run."""
    facts = {
        "Run": one_line(view.run.name),
        "Dataset": view.dataset,
        "Method": view.method,
        "Preset": view.preset,
        "Network": view.network,
        "Seed": view.seed,
        "Subset": view.limit or (f"all {view.n:,} examples evaluated" if view.n else ""),
        "Training time": f"{view.train_seconds:,.0f} s" if view.train_seconds is not None else "",
        "Example passes": f"{view.example_passes:,.0f}" if view.example_passes is not None else "",
    }
    facts |= {key.capitalize(): _value(value) for key, value in view.run.provenance.items()}
    return {
        "label": view.label,
        "dataset": view.dataset,
        "facts": {one_line(key): text for key, text in facts.items() if text},
        "config": view.run.config,
    }


def _shown(cell: Cell, column: Column) -> Shown:
    numeric = column.unit != "text"
    paper = format_paper(cell.paper, column.unit) if cell.paper is not None else ""
    if isinstance(cell.value, str) or cell.value is None:
        return Shown(text=cell.value or "", paper=paper, numeric=numeric)
    text = f"{format_number(cell.value, column.unit)}{sign(column.unit)}"
    interval = format_interval(cell, column.unit)
    title = f"n = {cell.n:,}" if cell.n is not None else ""
    return Shown(text=text, interval=interval, paper=paper, title=title, numeric=numeric)


def _kept(view: RunView, attack: str) -> str:
    """A sentence with the median top-k of a run under the attack and under noise."""
    parts = []
    noise = control_of(attack, view.attacks)
    for name, phrase in ((attack, f"under {attack}"), (noise, "under random noise of the same size")):
        stat = view.attacks[name].metrics.get("top_k") if name in view.attacks else None
        if stat is not None and stat.median is not None:
            cell = plain_cell(Cell(value=stat.median, ci95=stat.ci95), metric_column(METRICS["top_k"]))
            parts.append(f"{cell} {phrase} (n = {stat.n:,})")
    return f"{view.label} keeps {' and '.join(parts)} of its most important pixels (median top-k)." if parts else ""


def _stat_text(value: float | None, column: Column) -> str:
    return f"{format_number(value, column.unit)}{sign(column.unit)}" if value is not None else "not available"


def _at(value: float, domain: Interval) -> float:
    low, high = domain
    return round((min(max(value, low), high) - low) / (high - low) * WIDTH, 1)


def _ticks(low: float, high: float) -> list[float]:
    step = 0.25 if high - low <= 1 else 0.5
    count = round((high - low) / step)
    return [high - step * i for i in range(count + 1) if high - step * i >= low - 1e-9]


def _tick(value: float, column: Column) -> str:
    return f"{100 * value:.0f} %" if column.unit == "percent" else f"{value:.2f}"


def _path(steps: Sequence[int], values: Sequence[float], chart: Curves) -> str:
    low, high = (log(end) for end in chart.domain) if chart.log else chart.domain
    first, last = chart.steps
    points = []
    for step, value in zip(steps, values, strict=True):
        x = (step - first) / (last - first) * WIDTH
        y = (1 - ((log(value) if chart.log else value) - low) / (high - low)) * HEIGHT
        points.append(f"{x:.0f} {y:.0f}")
    return "M" + "L".join(points)


def _short(value: float) -> str:
    """Two significant digits with a short exponent: 0.12, 9.8e-5."""
    text = f"{value + 0.0:.2g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else ("0" if text == "-0" else text)


def _value(value: Any) -> str:
    """A provenance value as text; an empty string if it was not recorded."""
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        return ", ".join(_value(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value))
