"""Box plots and training curves as data; the HTML page and the matplotlib figures draw them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.metrics.registry import Metric, shown
from holdfast.report.tables import ordered
from holdfast.report.view import RunView, Stat, headline_attack
from holdfast.runs import metric_values
from holdfast.runs.bootstrap import Interval, Values
from holdfast.runs.names import control_of, is_control

_MAX_OUTLIERS, _MAX_POINTS = 120, 160
_LOG_FROM = 50.0


@dataclass(frozen=True, kw_only=True)
class Box:
    """One box: quartiles, interval of the median, whiskers to the last value within 1.5 box lengths, and outliers."""

    label: str
    look: int
    control: bool
    stat: Stat
    whiskers: Interval
    outliers: tuple[float, ...]
    beyond: int  # number of values outside the whiskers; `outliers` holds at most 120 distinct ones


@dataclass(frozen=True, kw_only=True)
class BoxPlot:
    """The boxes of one metric over the runs of one dataset, on one axis."""

    metric: str
    title: str
    attack: str
    domain: Interval
    boxes: tuple[Box, ...]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The curve of one run: steps and values, thinned to at most 160 points."""

    label: str
    look: int
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Curves:
    """One term of the loss (or an accuracy) during training, for all runs that logged it."""

    part: str
    log: bool
    steps: Interval
    domain: Interval
    curves: tuple[Curve, ...]


def box_plots(views: Sequence[RunView], looks: Mapping[str, int]) -> list[BoxPlot]:
    """One plot per headline metric under the headline attack, with the random control below each method."""
    attack = headline_attack(views)
    plots = []
    for metric in shown("headline"):
        boxes = [box for view in views for box in _boxes(view, attack, metric.name, looks[view.label])]
        if boxes:
            domain, title = _box_domain(boxes, metric), metric.long_title or metric.title
            plots.append(BoxPlot(metric=metric.name, title=title, attack=attack, domain=domain, boxes=tuple(boxes)))
    return plots


def training_curves(views: Sequence[RunView], looks: Mapping[str, int]) -> list[Curves]:
    """One chart per logged term, the total first and the accuracies last."""
    found: dict[str, list[Curve]] = {}
    for view in views:
        for part, (steps, values) in _series(view.run.log.entries).items():
            keep = np.unique(np.linspace(0, len(steps) - 1, _MAX_POINTS).astype(int))
            thin = Curve(
                label=view.label,
                look=looks[view.label],
                steps=tuple(steps[i] for i in keep),
                values=tuple(values[i] for i in keep),
            )
            found.setdefault(part, []).append(thin)
    return [_chart(part, found[part]) for part in sorted(found, key=_part_order)]


def tukey(values: Values) -> tuple[Interval, Values]:
    """Ends of the whiskers, and the values outside them."""
    low, high = np.quantile(values, (0.25, 0.75))
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    ends = (float(inside.min()), float(inside.max()))
    return ends, values[(values < ends[0]) | (values > ends[1])]


def _boxes(view: RunView, headline: str, metric: str, look: int) -> list[Box]:
    found, drawn = [], (headline, control_of(headline, view.attacks))
    for attack in ordered(view.attacks):
        stat = attack.metrics.get(metric, Stat())
        if attack.name not in drawn or stat.quartiles is None:
            continue
        values = metric_values(view.run.rows_of(attack.name), metric)[1]
        whiskers, beyond = tukey(values) if len(values) else (stat.quartiles, values)
        distinct = np.unique(beyond.round(3))
        keep = np.unique(np.linspace(0, max(len(distinct) - 1, 0), _MAX_OUTLIERS).astype(int))[: len(distinct)]
        box = Box(
            label=view.label,
            look=look,
            control=is_control(attack.name),
            stat=stat,
            whiskers=whiskers,
            outliers=tuple(float(v) for v in distinct[keep]),
            beyond=len(beyond),
        )
        found.append(box)
    return found


def _box_domain(boxes: Sequence[Box], metric: Metric) -> Interval:
    ends = [value for box in boxes for value in (*box.whiskers, *box.outliers)]
    if metric.is_distance:
        return metric.best, max([metric.best + 1.0, *ends])
    return min(0.0, math.floor(min(ends) * 5) / 5), metric.best


def _series(entries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[int], list[float]]]:
    """Loss term -> steps and finite values."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for entry in entries:
        named = {**entry.get("parts", {}), **{key: entry.get(key) for key in ("accuracy_clean", "accuracy_perturbed")}}
        for part, value in named.items():
            if isinstance(value, int | float) and math.isfinite(value):
                steps, values = found.setdefault(str(part), ([], []))
                steps.append(int(entry["step"]))
                values.append(float(value))
    return found


def _part_order(part: str) -> tuple[bool, bool, str]:
    return part.startswith("accuracy"), part != "total", part


def _chart(part: str, curves: Sequence[Curve]) -> Curves:
    values = np.concatenate([curve.values for curve in curves])
    steps = np.concatenate([curve.steps for curve in curves])
    low, high = float(values.min()), float(values.max())
    log = low > 0 and high / low > _LOG_FROM and not part.startswith("accuracy")
    domain = (0.0, 1.0) if part.startswith("accuracy") else (low, high if high > low else low + 1)
    span = (float(steps.min()), float(max(steps.max(), steps.min() + 1)))
    return Curves(part=part, log=log, steps=span, domain=domain, curves=tuple(curves))
