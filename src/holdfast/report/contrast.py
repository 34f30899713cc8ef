"""Two networks on the same images: each image, its maps, and what an attack leaves of them, one below the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.report.canvas import new_figure, quiet
from holdfast.report.pictures import Picture, Shot, pictures
from holdfast.report.view import RunView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 5
"""Number of columns."""


def attacked_by_both(views: Sequence[RunView]) -> list[Picture]:
    """The images whose maps were attacked in every run, ordered by id instead of by damage."""
    found = [picture for picture in pictures(views) if len(picture.shots) == len(views)]
    moved = [picture for picture in found if all(shot.row and shot.row.outcome == "attacked" for shot in picture.shots)]
    return sorted(moved, key=lambda picture: picture.id)[:MOST]


def contrast_figure(views: Sequence[RunView]) -> "Figure | None":
    """One column per image, and two rows per run: the map before and after the attack. None without such images."""
    shown = attacked_by_both(views)
    if not shown:
        return None
    rows = 1 + 2 * len(views)
    with quiet():
        figure = new_figure(width=0.9 + 1.15 * len(shown), height=1.12 * rows + 0.25 * (1 + len(views)))
        grid = figure.subplots(rows, len(shown), squeeze=False)
        for column, picture in enumerate(shown):
            _image(grid[0, column], picture, views[0])
            for at, shot in enumerate(picture.shots):
                _maps(grid[1 + 2 * at, column], grid[2 + 2 * at, column], shot)
        for axis in figure.axes:
            axis.set(xticks=[], yticks=[])
        names = [f"{view.label}\n{when}" for view in views for when in ("map", "map, attacked")]
        for axis, name in zip(grid[:, 0], ["image", *names], strict=True):
            axis.set_ylabel(name, rotation=0, ha="right", va="center", multialignment="right")
    return figure


def _image(axis: "Axes", picture: Picture, view: RunView) -> None:
    axis.imshow(picture.clean, cmap="gray", vmin=0, vmax=255)
    axis.set_title(view.class_names[picture.label] if view.class_names else str(picture.label), fontsize=9)


def _maps(before: "Axes", after: "Axes", shot: Shot) -> None:
    for axis, pixels in ((before, shot.clean_map), (after, shot.perturbed_map)):
        axis.imshow(pixels, cmap="inferno", vmin=0, vmax=255)
    kept = shot.row.score("top_k") if shot.row else None
    after.set_xlabel("" if kept is None else f"{kept:.0%} kept", fontsize=9)
