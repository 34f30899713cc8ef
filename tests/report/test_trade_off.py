"""Accuracy against stability: points, coordinates and labels."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.runs import write_run

from holdfast.report import view_runs
from holdfast.report.figures import draw_figures
from holdfast.report.html import report_html
from holdfast.report.looks import method_looks
from holdfast.report.trade_off import APART, HEIGHT, TOP, Point, TradeOff, domain, page_trade_off, ticks, trade_offs
from holdfast.report.view import RunView
from holdfast.runs import find_runs, read_run
from holdfast.runs.next_steps import Step


def test_one_point_per_run_with_accuracy_and_mean(views: tuple[RunView, ...]) -> None:
    plots = trade_offs(views, method_looks(views))
    assert [plot.metric for plot in plots] == ["top_k", "kendall"]
    for plot in plots:
        assert [point.label for point in plot.points] == [view.label for view in views]
        for point, view in zip(plot.points, views, strict=True):
            stat = view.attacks["ifia-topk"].metrics[plot.metric]
            assert (point.accuracy, point.kept, point.n) == (view.natural.median, stat.mean, stat.n)
            assert point.kept_ci95 is not None
            assert plot.y[0] <= point.kept_ci95[0] <= point.kept_ci95[1] <= plot.y[1]


def test_a_single_run_or_one_without_accuracy_has_no_trade_off(views: tuple[RunView, ...]) -> None:
    assert trade_offs(views[:1], method_looks(views)) == []
    unmeasured = replace(views[1], natural=replace(views[1].natural, median=None))
    assert trade_offs([views[0], unmeasured], method_looks(views)) == []


def plot_of(*points: tuple[float, float]) -> TradeOff:
    made = tuple(
        Point(label=f"m{i}", look=i, accuracy=x, accuracy_ci95=None, kept=y, kept_ci95=None, n=10)
        for i, (x, y) in enumerate(points)
    )
    return TradeOff(metric="top_k", title="Top-k", attack="strongest", points=made, x=(0.5, 1.0), y=(0.0, 1.0))


def test_coordinates() -> None:
    """The frame runs from 62 to 586 and from 12 to 330; up on the page is a smaller number."""
    page = page_trade_off(plot_of((0.5, 0.0), (1.0, 1.0), (0.75, 0.5)))
    assert [point["at"] for point in page["points"]] == [(62.0, 330.0), (586.0, 12.0), (324.0, 171.0)]
    assert [point["anchor"] for point in page["points"]] == ["start", "end", "start"]
    assert page["y_ticks"][0] == (330.0, "0 %")
    assert page["points"][0]["said"] == "m0: accuracy 50.0 %, mean 0.0 %, n = 10"


@given(st.lists(st.tuples(st.floats(0.5, 1), st.floats(0, 1)), min_size=2, max_size=12))
def test_labels_do_not_overlap(points: list[tuple[float, float]]) -> None:
    heights = sorted(point["text_at"][1] for point in page_trade_off(plot_of(*points))["points"])
    assert all(b - a >= APART - 1e-6 for a, b in pairwise(heights))
    assert TOP < heights[0] <= heights[-1] < HEIGHT


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_axes_include_the_values_and_have_few_ticks(values: list[float]) -> None:
    low, high = domain(values)
    assert low <= min(values) <= max(values) <= high <= 1
    assert high - low >= 0.03
    assert 2 <= len(ticks((low, high))) <= 7


def test_page_and_figures(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / method, method=method) for method in ("natural", "trades")]
    views = view_runs([read_run(folder) for folder in folders])
    page = report_html(views, steps=[Step(text="Audit it.", command="holdfast audit --model <m> --out runs/mine")])
    assert "Accuracy against stability on mnist" in page
    assert "natural: accuracy" in page
    assert "<span>--model &lt;m&gt;</span>" in page
    assert 'href="#next"' in page
    assert "trade-off-mnist" in dict(draw_figures(views))
    assert "Accuracy against stability" not in report_html(views[:1])
    assert 'href="#next"' not in report_html(views)


@pytest.mark.parametrize("missing", ["ifia-topk"])
def test_runs_without_the_attack_are_left_out(tmp_path: Path, missing: str) -> None:
    write_run(tmp_path / "a", method="natural")
    write_run(tmp_path / "b", method="madry")
    write_run(tmp_path / "c", method="erar", attacks=("random",))
    views = view_runs(find_runs([tmp_path / name for name in "abc"])[0])
    (plot, _) = trade_offs(views, method_looks(views))
    assert plot.attack == missing
    assert [point.label for point in plot.points] == ["natural", "madry"]
