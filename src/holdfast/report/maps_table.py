"""The table of several maps of one network."""

from holdfast.report.maps import MapsView, MapView
from holdfast.report.tables import Cell, Column, Table
from holdfast.report.view import RunView
from holdfast.runs.controls import AGREEMENT, IMAGE
from holdfast.runs.map_comparison import title

_COLUMNS = (
    Column(key="map", title="Explanation", unit="text"),
    Column(key="under_noise", title="Kept under noise", unit="percent"),
    Column(key="kept", title="Kept under attack", unit="percent"),
    Column(key="behind_best", title="Behind the best (points)", unit="points"),
    Column(key="kendall", title="Kendall under attack", unit="number"),
    Column(key="like_the_image", title="Like the image itself", unit="number"),
)


def maps_table(view: RunView, maps: MapsView) -> Table:
    """One row per map, with the paired difference to the best and the agreement of the map with the image."""
    return Table(
        name=f"maps-{view.group}",
        title="Explanations compared",
        columns=_COLUMNS,
        rows=tuple(_row(view, one, maps.n) for one in maps.found),
        notes=(
            f"Means over the same {maps.n:,} images. Behind the best: mean paired difference [95 % interval].",
            "Like the image itself: Spearman correlation of the map with the brightness of the image. A map that "
            "mostly shows the image holds because the image does.",
        ),
    )


def _row(view: RunView, one: MapView, n: int) -> tuple[Cell, ...]:
    attack = view.attacks.get(one.attack)
    image = attack.controls.get(IMAGE, {}).get(AGREEMENT) if attack is not None else None
    behind = None if one.behind is None else -one.behind
    ends = None if one.behind_ci95 is None else (-one.behind_ci95[1], -one.behind_ci95[0])
    return (
        Cell(value=title(one.name)),
        Cell(value=one.under_noise, n=n),
        Cell(value=one.kept, n=n),
        Cell(value="best" if behind is None else behind, ci95=ends, n=n),
        Cell(value=one.kendall, n=n),
        Cell(value=None if image is None else image.median, n=n),
    )
