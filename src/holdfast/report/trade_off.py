"""Accuracy against stability of the maps: one point per run, as data and as coordinates for the page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.metrics.registry import METRICS, shown
from holdfast.report.render import format_number, sign
from holdfast.report.tables import Unit
from holdfast.report.view import RunView, Stat, decisive_attack
from holdfast.runs.bootstrap import Interval

WIDTH, HEIGHT = 600, 380
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 50
"""Size of the drawing on the page, and its margins."""

APART = 17
"""Least vertical distance between two labels."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run: its accuracy, and the mean of a metric under the decisive attack."""

    label: str
    look: int
    accuracy: float
    accuracy_ci95: Interval | None
    kept: float
    kept_ci95: Interval | None
    n: int


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """The points of one metric over the runs of one dataset."""

    metric: str
    title: str
    attack: str
    points: tuple[Point, ...]
    x: Interval
    y: Interval


def trade_offs(views: Sequence[RunView], looks: Mapping[str, int]) -> list[TradeOff]:
    """One plot per headline metric; none if fewer than two runs have an accuracy and the metric."""
    attack = decisive_attack(views)
    found = []
    for metric in shown("headline"):
        points = tuple(point for view in views if (point := _point(view, attack, metric.name, looks)) is not None)
        if len(points) > 1:
            title = metric.long_title or metric.title
            x = domain([end for p in points for end in (p.accuracy, *(p.accuracy_ci95 or ()))])
            y = domain([end for p in points for end in (p.kept, *(p.kept_ci95 or ()))])
            found.append(TradeOff(metric=metric.name, title=title, attack=attack, points=points, x=x, y=y))
    return found


def page_trade_off(plot: TradeOff) -> dict[str, Any]:
    """A plot in the coordinates of its drawing."""
    unit = METRICS[plot.metric].unit
    points = [_on_page(point, plot, unit) for point in plot.points]
    _separate(points)
    return {
        "title": plot.title,
        "attack": plot.attack,
        "size": (WIDTH, HEIGHT),
        "frame": (LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM),
        "x_ticks": [(_x(at, plot.x), _text(at, "percent", 0)) for at in ticks(plot.x)],
        "y_ticks": [(_y(at, plot.y), _text(at, unit, 0 if unit == "percent" else 2)) for at in ticks(plot.y)],
        "points": points,
    }


def ticks(ends: Interval) -> list[float]:
    """Three to six round numbers between the ends.

    >>> [round(at, 2) for at in ticks((0.9, 1.0))]
    [0.9, 0.92, 0.94, 0.96, 0.98, 1.0]
    """
    low, high = ends
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s <= 6)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def domain(values: Sequence[float]) -> Interval:
    """Ends of an axis: the values with a margin, at least five hundredths wide, at most up to 1.

    >>> domain([0.9, 0.98])
    (0.89, 0.99)
    """
    low, high = min(values), max(values)
    margin = max(0.1 * (high - low), (0.05 - (high - low)) / 2)
    return math.floor((low - margin) * 100) / 100, min(1.0, math.ceil((high + margin) * 100) / 100)


def _point(view: RunView, attack: str, metric: str, looks: Mapping[str, int]) -> Point | None:
    stat = view.attacks[attack].metrics.get(metric, Stat()) if attack in view.attacks else Stat()
    if stat.mean is None or view.natural.median is None:
        return None
    return Point(
        label=view.label,
        look=looks[view.label],
        accuracy=view.natural.median,
        accuracy_ci95=view.natural.ci95,
        kept=stat.mean,
        kept_ci95=stat.mean_ci95,
        n=stat.n,
    )


def _on_page(point: Point, plot: TradeOff, unit: Unit) -> dict[str, Any]:
    at = _x(point.accuracy, plot.x), _y(point.kept, plot.y)
    left = at[0] > 0.75 * WIDTH
    accuracy, kept = _text(point.accuracy, "percent"), _text(point.kept, unit)
    return {
        "label": point.label,
        "look": point.look,
        "at": at,
        "x_bar": [_x(end, plot.x) for end in point.accuracy_ci95 or ()],
        "y_bar": [_y(end, plot.y) for end in point.kept_ci95 or ()],
        "text_at": [at[0] + (-10 if left else 10), at[1] - 8],
        "anchor": "end" if left else "start",
        "said": f"{point.label}: accuracy {accuracy}, mean {kept}, n = {point.n:,}",
    }


def _separate(points: Sequence[dict[str, Any]]) -> None:
    """Move labels up until no two of them are closer than `APART`, then down where they would leave the drawing."""
    upwards = sorted(points, key=lambda p: -p["text_at"][1])
    last = math.inf
    for point in upwards:
        point["text_at"][1] = last = min(point["text_at"][1], last - APART)
    last = TOP - APART + 8
    for point in reversed(upwards):
        point["text_at"][1] = last = max(point["text_at"][1], last + APART)


def _x(value: float, ends: Interval) -> float:
    return round(LEFT + _share(value, ends) * (WIDTH - LEFT - RIGHT), 1)


def _y(value: float, ends: Interval) -> float:
    return round(HEIGHT - BOTTOM - _share(value, ends) * (HEIGHT - TOP - BOTTOM), 1)


def _share(value: float, ends: Interval) -> float:
    low, high = ends
    return (min(max(value, low), high) - low) / (high - low)


def _text(value: float, unit: Unit, digits: int | None = None) -> str:
    return f"{format_number(value, unit, digits=digits)}{sign(unit)}"
