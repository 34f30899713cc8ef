"""Figures for papers with matplotlib, as PNG and PDF: box plots, image panels and training curves."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.report.canvas import new_figure, quiet
from holdfast.report.certificates import OverlapCurves, overlap_curves
from holdfast.report.charts import Box, BoxPlot, Curves, box_plots, training_curves
from holdfast.report.looks import LOOKS, PALETTE, Look, method_looks
from holdfast.report.panel_figures import draw_panels
from holdfast.report.trade_off import TradeOff, trade_offs
from holdfast.report.view import RunView, datasets
from holdfast.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BOX_STYLE: dict[str, Any] = {
    "orientation": "horizontal",
    "patch_artist": True,
    "widths": 0.55,
    "flierprops": {"ms": 2.5},
    "medianprops": {"color": "black", "lw": 1.6},
}


def draw_figures(views: Sequence[RunView]) -> Iterator[tuple[str, "Figure"]]:
    """Yield (name, figure): box plots, trade-off and training curves of each dataset, and panels of examples."""
    looks = method_looks(views)
    for dataset, group in datasets(views).items():
        if plots := box_plots(group, looks):
            yield f"boxes-{dataset}", box_figure(plots)
        if points := trade_offs(group, looks):
            yield f"trade-off-{dataset}", trade_off_figure(points)
        if charts := training_curves(group, looks):
            yield f"losses-{dataset}", loss_figure(charts)
        if curves := overlap_curves(group):
            yield f"certificates-{dataset}", certificate_figure(curves)
    yield from draw_panels(views)


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF, without a creation date, so that the same data gives the same file."""
    options: dict[str, dict[str, Any]] = {"png": {"dpi": 200}, "pdf": {"metadata": {"CreationDate": None}}}
    paths = []
    for kind, extra in options.items():
        buffer = io.BytesIO()
        with quiet():
            figure.savefig(buffer, format=kind, bbox_inches="tight", **extra)
        paths.append(folder / f"{safe_name(name)}.{kind}")
        write_file(paths[-1], buffer.getvalue())
    return paths


def save_png(figure: "Figure", path: Path) -> Path:
    """Write a figure as one PNG file; return its path."""
    buffer = io.BytesIO()
    with quiet():
        figure.savefig(buffer, format="png", bbox_inches="tight", dpi=150)
    write_file(path, buffer.getvalue())
    return path


def box_figure(plots: Sequence[BoxPlot]) -> "Figure":
    """The variance figure of the paper: one box per method, top-k and Kendall side by side."""
    boxes = [[box for box in plot.boxes if not box.control] for plot in plots]
    with quiet():
        figure = new_figure(width=1.2 + 2.8 * len(plots), height=0.8 + 0.36 * max(len(row) for row in boxes))
        axes = figure.subplots(1, len(plots), squeeze=False, gridspec_kw={"wspace": 0.07})[0]
        for axis, plot, row in zip(axes, plots, boxes, strict=True):
            drawn = axis.bxp([_bxp(box) for box in reversed(row)], **_BOX_STYLE)
            for patch, box in zip(drawn["boxes"], reversed(row), strict=True):
                patch.set(facecolor=f"{LOOKS[box.look].color}8c", hatch=LOOKS[box.look].hatch)
            ends = (plot.domain[0] - 0.02, plot.domain[1] + 0.02)
            axis.set(title=plot.title, xlabel=f"under {plot.attack}", xlim=ends)
            if axis is not axes[0] and [box.label for box in row] == [box.label for box in boxes[0]]:
                axis.tick_params(labelleft=False)
    return figure


def trade_off_figure(plots: Sequence[TradeOff]) -> "Figure":
    """Accuracy against stability: one point per run with 95 % intervals, one axis per metric."""
    with quiet():
        figure = new_figure(width=3.6 * len(plots), height=3.0)
        for axis, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
            for point in plot.points:
                look = LOOKS[point.look]
                for at, ends in ((0, point.accuracy_ci95), (1, point.kept_ci95)):
                    if ends:
                        line = (ends, (point.kept,) * 2) if at == 0 else ((point.accuracy,) * 2, ends)
                        axis.plot(*line, color=look.color, alpha=0.35, lw=1.2, zorder=1)
                axis.plot(point.accuracy, point.kept, ls="", label=point.label, **_marker(look))
            axis.set(title=plot.title, xlabel="accuracy", ylabel=f"mean under {plot.attack}", xlim=plot.x, ylim=plot.y)
        _legend(figure)
    return figure


def loss_figure(charts: Sequence[Curves]) -> "Figure":
    """Each term of the loss during training, one line per run."""
    columns = min(3, len(charts))
    rows = -(-len(charts) // columns)
    with quiet():
        figure = new_figure(width=2.6 * columns, height=2.0 * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, chart in zip(axes, charts, strict=False):
            for at, curve in enumerate(chart.curves):
                look, apart = LOOKS[curve.look], max(1, len(curve.steps) // 4)
                often = (at * apart // len(chart.curves), apart)  # markers of different curves at different steps
                style = {**_marker(look), "ms": 0.6 * look.size, "markevery": often, "ls": look.dash, "lw": 1.0}
                axis.plot(curve.steps, curve.values, label=curve.label, **style)
            axis.set(title=chart.part, xlabel="step", yscale="log" if chart.log else "linear")
            if chart.log:  # matplotlib's default labels need mathtext, which is disabled because of user text
                axis.yaxis.set_major_formatter("{x:.0e}")
                axis.yaxis.set_minor_formatter("")
        for axis in axes[len(charts) :]:
            axis.remove()
        _legend(figure)
    return figure


def _marker(look: Look) -> dict[str, Any]:
    """Options of a line for the colour and the marker of a method; a hollow one lies below the others."""
    return {
        "color": look.color,
        "marker": look.marker,
        "ms": look.size,
        "mew": 1.2,
        "mfc": "white" if look.fill == "none" else look.color,
        "markerfacecoloralt": "white",
        "fillstyle": "bottom" if look.fill == "bottom" else "full",
        "zorder": 2 if look.fill == "none" else 3,
    }


def _legend(figure: "Figure") -> None:
    """One entry per labelled line of all axes, below them, in as many columns as fit the width."""
    lines = [line for axis in figure.axes for line in axis.get_lines() if not str(line.get_label()).startswith("_")]
    handles = {str(line.get_label()): line for line in lines}
    longest = max((len(label) for label in handles), default=1)
    fitting = int(figure.get_figwidth() / (0.075 * longest + 0.55))
    columns = min(max(1, fitting), max(1, len(handles)))
    options: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "columnspacing": 1.2}
    figure.legend(list(handles.values()), list(handles), ncols=columns, **options)


def certificate_figure(runs: Sequence[OverlapCurves]) -> "Figure":
    """Certified and attacked share of the top pixels of the smoothed map over the radius, one axis per run."""
    with quiet():
        figure = new_figure(width=3.2 * len(runs), height=2.6)
        axes = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
        for axis, curves in zip(axes, runs, strict=True):
            for points, label, color in ((curves.certified, "certified", 0), (curves.attacked, "under attack", 1)):
                if points:
                    radii, shares = zip(*points, strict=True)
                    axis.plot(radii, shares, color=PALETTE[color], label=label, lw=1.4, marker="o" if color else "")
            axis.set(title=curves.label, xlabel="radius", ylim=(0, 1.02))
        axes[0].set_ylabel(f"top {runs[0].k} kept")
        axes[0].legend(frameon=False)
    return figure


def safe_name(text: str) -> str:
    """A file name without path separators.

    >>> safe_name("boxes-../../etc")
    'boxes-..-..-etc'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".")[:120] or "unnamed"


def _bxp(box: Box) -> dict[str, Any]:
    low, high = box.stat.quartiles or box.whiskers
    ends = {"whislo": box.whiskers[0], "whishi": box.whiskers[1], "fliers": list(box.outliers)}
    return {"label": box.label, "med": box.stat.median, "q1": low, "q3": high, **ends}
