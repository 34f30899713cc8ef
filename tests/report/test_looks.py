"""Every method looks different, and a known one always looks the same."""

import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tests.report.runs import write_run

from holdfast.experiment.tables import FAIR, MAIN
from holdfast.report import RunView, view_runs
from holdfast.report.charts import box_plots
from holdfast.report.figures import box_figure, draw_figures, trade_off_figure
from holdfast.report.looks import LOOKS, PALETTE, method_looks
from holdfast.report.trade_off import trade_offs
from holdfast.runs import read_run

CSS = files("holdfast.report").joinpath("templates/base.css").read_text()

ELEVEN = (*FAIR, "erar_plus-strong", "somebody's own")


@pytest.fixture(scope="module")
def eleven(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunView, ...]:
    root = tmp_path_factory.mktemp("eleven")
    return view_runs([read_run(write_run(root / str(i), method=method, n=30)) for i, method in enumerate(ELEVEN)])


def seen(color: str, lost: str) -> np.ndarray:
    """The colour [3] as seen without red or green cones (Viénot, Brettel and Mollon, 1999), in linear light."""
    linear = (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255) ** 2.2
    red, green = {"red": (0.11238, 0.88762), "green": (0.29275, 0.70725)}[lost]
    return np.array([[red, green, 0], [red, green, 0], [0.004, -0.004, 1]]) @ linear


def test_looks_differ_without_any_colour() -> None:
    assert len({(look.marker, look.fill) for look in LOOKS}) == len(LOOKS) == 24
    assert len({(look.color, look.hatch) for look in LOOKS}) == len({(look.color, look.dash) for look in LOOKS}) == 24


@pytest.mark.parametrize("lost", ["red", "green"])
def test_colours_differ_without_red_or_green(lost: str) -> None:
    found = np.array([seen(color, lost) for color in PALETTE])
    apart = np.abs(found[:, None] - found[None]).max(-1) + np.eye(len(PALETTE))
    assert apart.min() > 0.04


def test_more_methods_than_colours(eleven: tuple[RunView, ...]) -> None:
    looks = method_looks(eleven)
    assert len(looks) == len(set(looks.values())) == len(ELEVEN) > len(PALETTE)


def test_a_known_method_looks_the_same_whatever_is_beside_it(eleven: tuple[RunView, ...]) -> None:
    looks = method_looks(eleven)
    for view in eleven:
        if view.method != ELEVEN[-1]:
            assert method_looks([view]) == {view.label: looks[view.label]}
    first = [view for view in eleven if view.method in MAIN]
    assert {LOOKS[looks[view.label]].fill for view in first} == {"full"}


def test_unknown_methods_take_what_is_left_and_repeat_at_the_end(tmp_path: Path) -> None:
    names = ["erar", *(f"m{i}" for i in range(30)), "rar", "ig_sum_norm"]
    folders = [write_run(tmp_path / name, method=name, n=8, log=False, attacks=("random",)) for name in names]
    looks = method_looks(view_runs([read_run(folder) for folder in folders]))
    assert looks["erar"] == method_looks(view_runs([read_run(folders[0])]))["erar"]
    assert set(looks.values()) == set(range(len(LOOKS)))
    assert looks["rar"] != looks["ig_sum_norm"]
    assert list(looks.values()).count(looks["erar"]) == 1


def test_figures_of_eleven_methods(eleven: tuple[RunView, ...]) -> None:
    looks = method_looks(eleven)
    trade_off = trade_off_figure(trade_offs(eleven, looks))
    points = [line for line in trade_off.axes[0].get_lines() if not str(line.get_label()).startswith("_")]
    shapes = {(p.get_color(), p.get_marker(), p.get_fillstyle(), p.get_markerfacecolor()) for p in points}
    assert len(shapes) == len({(p.get_marker(), p.get_markerfacecolor(), p.get_fillstyle()) for p in points}) == 11
    assert len(trade_off.legends[0].get_texts()) == 11
    boxes = box_figure(box_plots(eleven, looks))
    faces = {(patch.get_facecolor(), patch.get_hatch()) for patch in boxes.axes[0].patches}
    assert len(faces) == 11
    assert boxes.axes[0].get_xlabel() == "under ifia-topk"
    losses = dict(draw_figures(eleven))["losses-mnist"]
    lines = {(line.get_color(), line.get_linestyle()) for line in losses.axes[0].get_lines()}
    assert len(lines) == 11


def test_legend_is_inside_the_figure(eleven: tuple[RunView, ...]) -> None:
    figure = trade_off_figure(trade_offs(eleven, method_looks(eleven)))
    figure.canvas.draw()
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    below = min(axis.get_tightbbox().y0 for axis in figure.axes)
    assert legend.y1 <= below


def test_the_page_has_a_class_per_look() -> None:
    for number, look in enumerate(LOOKS):
        name = re.search(rf"\.c{number}\b[^{{}}]*{{ --color: var\(--(c\d)\); }}", CSS)
        assert name
        assert f"--{name[1]}: {look.color};" in CSS
