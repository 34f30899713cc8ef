"""Figures of single images: image, perturbed image and both maps of each method, and of each ablation of ERAR."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.report.canvas import new_figure, quiet
from holdfast.report.pictures import Picture, Shot, pictures
from holdfast.report.view import RunView, datasets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS, MAX_ABLATIONS = 6, 2
"""Most images per dataset, and per ablation of a dataset."""

ABLATIONS = {
    "regularizers": {"erar-cacr-only": "CACR only", "erar-wacr-only": "WACR only", "erar": "CACR and WACR"},
    "coefficients": {"erar-1-0.7": "CACR 1, WACR 0.7", "erar-0.7-1": "CACR 0.7, WACR 1", "erar": "CACR 1, WACR 1"},
    "nca": {"erar-no-nca": "without P_NCA", "erar": "with P_NCA"},
    "base": {"erar-no-base": "without base attribution", "erar": "with base attribution"},
}
"""What was varied -> method -> title of its column. The paper draws the first and the third, for the Flower images."""

TITLES = ("Image", "Perturbed", "Map", "Map, perturbed")
_NOTES = {"misclassified": "misclassified, not attacked", "label_lost": "no step kept the label", "nan_map": "no map"}


def draw_panels(views: Sequence[RunView]) -> Iterator[tuple[str, "Figure"]]:
    """Yield (name, figure) for the panels of each dataset, then for the ablations of ERAR among its runs."""
    for dataset, group in datasets(views).items():
        for picture in chosen(group)[:MAX_PANELS]:
            yield f"panels-{dataset}-{picture.id}", panel_figure(picture, group)
        for name, titles in ABLATIONS.items():
            runs = _ablation(group, list(titles))
            for picture in chosen(runs)[:MAX_ABLATIONS]:
                columns = [titles[runs[shot.view].method] for shot in picture.shots]
                if len(columns) > 1:
                    yield f"ablation-{name}-{dataset}-{picture.id}", ablation_figure(picture, columns)


def chosen(views: Sequence[RunView]) -> list[Picture]:
    """The images that most runs have and that were attacked in all of them.

    These runs predict them right, and the attack kept the label. If there is no such image, the first one is chosen;
    its figure says what was not attacked.
    """
    found = pictures(views)
    shared = [picture for picture in found if len(picture.shots) == len(found[0].shots)]
    return [picture for picture in shared if not any(note(picture, shot) for shot in picture.shots)] or shared[:1]


def note(picture: Picture, shot: Shot) -> str:
    """Why the perturbed image of a run is not one that kept the right label; empty if it is."""
    if shot.prediction != picture.label:
        return _NOTES["misclassified"]
    return _NOTES.get(shot.row.outcome, "") if shot.row else ""


def panel_figure(picture: Picture, views: Sequence[RunView]) -> "Figure":
    """The first figure of the paper: one row per method, with one colour scale for the maps of all methods."""
    with quiet():
        figure = new_figure(width=6.0, height=1.55 * len(picture.shots) + 0.3)
        grid = figure.subplots(len(picture.shots), len(TITLES), squeeze=False)
        for row, shot in zip(grid, picture.shots, strict=True):
            _draw(row, picture, shot)
            why = note(picture, shot)
            row[0].set_ylabel(f"{views[shot.view].label}\n{why}" if why else views[shot.view].label)
        for axis, title in zip(grid[0], TITLES, strict=True):
            axis.set_title(title)
    return figure


def ablation_figure(picture: Picture, titles: Sequence[str]) -> "Figure":
    """The ablation figures of the paper: one column per variant of ERAR, with one colour scale for all maps.

    Below each column is the share of the top pixels that the attack leaves, or why there was no attack.
    """
    with quiet():
        figure = new_figure(width=0.4 + 1.7 * len(titles), height=6.6)
        grid = figure.subplots(len(TITLES), len(titles), squeeze=False)
        for column, shot, title in zip(grid.T, picture.shots, titles, strict=True):
            _draw(column, picture, shot)
            kept = shot.row.score("top_k") if shot.row else None
            column[0].set_title(title, fontsize=9)
            column[-1].set_xlabel(note(picture, shot) or ("" if kept is None else f"{kept:.0%} of the top pixels kept"))
        for axis, name in zip(grid[:, 0], TITLES, strict=True):
            axis.set_ylabel(name)
    return figure


def _draw(axes: Sequence["Axes"], picture: Picture, shot: Shot) -> None:
    for axis, pixels in zip(axes[:2], (picture.clean, shot.perturbed), strict=True):
        axis.imshow(pixels, cmap="gray", vmin=0, vmax=255)
    for axis, pixels in zip(axes[2:], (shot.clean_map, shot.perturbed_map), strict=True):
        axis.imshow(pixels, cmap="inferno", vmin=0, vmax=255)
    for axis in axes:
        axis.set(xticks=[], yticks=[])


def _ablation(views: Sequence[RunView], methods: Sequence[str]) -> list[RunView]:
    """The runs of these methods, in this order, with the seed of the first ERAR run; none without ERAR."""
    seed = next((view.seed for view in views if view.method == "erar"), None)
    first = {view.method: view for view in reversed(views) if view.seed == seed}
    return [first[method] for method in methods if method in first]
