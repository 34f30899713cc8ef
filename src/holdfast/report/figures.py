"""Figures for papers with matplotlib, as PNG and PDF: box plots, image panels and training curves."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.report.certificates import OverlapCurves, overlap_curves
from holdfast.report.charts import Box, BoxPlot, Curves, box_plots, method_colors, training_curves
from holdfast.report.pictures import Picture, pictures
from holdfast.report.trade_off import TradeOff, trade_offs
from holdfast.report.view import RunView, datasets
from holdfast.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0568a", "#c98a00", "#3a9ad9", "#6b4fa0", "#6b7280")
"""The colours of the HTML page in its light theme; safe for red-green colour blindness."""

MAX_PANELS = 6
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
}
_BOX_STYLE: dict[str, Any] = {
    "orientation": "horizontal",
    "patch_artist": True,
    "widths": 0.55,
    "flierprops": {"ms": 2.5},
    "medianprops": {"color": "black", "lw": 1.6},
}


def draw_figures(views: Sequence[RunView]) -> Iterator[tuple[str, "Figure"]]:
    """Yield (name, figure): box plots, trade-off and training curves of each dataset, and panels of examples."""
    colors = method_colors(views)
    for dataset, group in datasets(views).items():
        if plots := box_plots(group, colors):
            yield f"boxes-{dataset}", box_figure(plots)
        if points := trade_offs(group, colors):
            yield f"trade-off-{dataset}", trade_off_figure(points)
        if charts := training_curves(group, colors):
            yield f"losses-{dataset}", loss_figure(charts)
        if curves := overlap_curves(group):
            yield f"certificates-{dataset}", certificate_figure(curves)
    for picture in pictures(views)[:MAX_PANELS]:
        yield f"panels-{picture.dataset}-{picture.id}", panel_figure(picture, views)


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
        figure = new_figure(width=3.4 * len(plots), height=0.8 + 0.42 * max(len(row) for row in boxes))
        axes = figure.subplots(1, len(plots), squeeze=False)[0]
        for axis, plot, row in zip(axes, plots, boxes, strict=True):
            stats = [_bxp(box) for box in reversed(row)]
            drawn = axis.bxp(stats, **_BOX_STYLE)
            for patch, box in zip(drawn["boxes"], reversed(row), strict=True):
                patch.set(facecolor=PALETTE[box.color], alpha=0.55)
            axis.set(xlabel=plot.title, xlim=(plot.domain[0] - 0.02, plot.domain[1] + 0.02))
    return figure


def trade_off_figure(plots: Sequence[TradeOff]) -> "Figure":
    """Accuracy against stability: one point per run with 95 % intervals, one axis per metric."""
    with quiet():
        figure = new_figure(width=3.6 * len(plots), height=2.9)
        for axis, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
            for point in plot.points:
                for at, ends in ((0, point.accuracy_ci95), (1, point.kept_ci95)):
                    if ends:
                        line = (ends, (point.kept,) * 2) if at == 0 else ((point.accuracy,) * 2, ends)
                        axis.plot(*line, color=PALETTE[point.color], alpha=0.35, lw=1.2)
                axis.plot(point.accuracy, point.kept, "o", color=PALETTE[point.color], ms=6, label=point.label)
            axis.set(title=plot.title, xlabel="accuracy", ylabel=f"mean under {plot.attack}", xlim=plot.x, ylim=plot.y)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def loss_figure(charts: Sequence[Curves]) -> "Figure":
    """Each term of the loss during training, one line per run."""
    columns = min(3, len(charts))
    rows = -(-len(charts) // columns)
    with quiet():
        figure = new_figure(width=2.6 * columns, height=2.0 * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, chart in zip(axes, charts, strict=False):
            for curve in chart.curves:
                axis.plot(curve.steps, curve.values, color=PALETTE[curve.color], label=curve.label, lw=1.2)
            axis.set(title=chart.part, xlabel="step", yscale="log" if chart.log else "linear")
            if chart.log:  # matplotlib's default labels need mathtext, which is disabled because of user text
                axis.yaxis.set_major_formatter("{x:.0e}")
                axis.yaxis.set_minor_formatter("")
        for axis in axes[len(charts) :]:
            axis.remove()
        handles = {str(line.get_label()): line for axis in figure.axes for line in axis.get_lines()}
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False)
    return figure


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


def panel_figure(picture: Picture, views: Sequence[RunView]) -> "Figure":
    """The first figure of the paper: one row per method, with one colour scale for the maps of all methods."""
    titles = ("Image", "Perturbed", "Map", "Map, perturbed")
    with quiet():
        figure = new_figure(width=6.0, height=1.55 * len(picture.shots) + 0.3)
        grid = figure.subplots(len(picture.shots), 4, squeeze=False)
        for row, shot in zip(grid, picture.shots, strict=True):
            for axis, pixels in zip(row[:2], (picture.clean, shot.perturbed), strict=True):
                axis.imshow(pixels, cmap="gray", vmin=0, vmax=255)
            for axis, pixels in zip(row[2:], (shot.clean_map, shot.perturbed_map), strict=True):
                axis.imshow(pixels, cmap="inferno", vmin=0, vmax=255)
            row[0].set_ylabel(views[shot.view].label)
        for axis, title in zip(grid[0], titles, strict=True):
            axis.set_title(title)
        for axis in figure.axes:
            axis.set(xticks=[], yticks=[])
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


def new_figure(*, width: float, height: float) -> "Figure":
    """An empty figure in inches, apart from the figures of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def quiet() -> Iterator[None]:
    """Use our style and ignore warnings about missing glyphs, since user text can be in any script."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        yield
