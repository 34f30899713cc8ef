"""Several maps of one network as the report shows them: what each keeps, and which holds best."""

from dataclasses import dataclass

from holdfast.report.document import Document
from holdfast.runs.bootstrap import Interval


@dataclass(frozen=True, kw_only=True)
class MapView:
    """What one map keeps, on average over the images that all maps have."""

    name: str
    attack: str
    kept: float | None
    under_noise: float | None
    kendall: float | None
    behind: float | None
    behind_ci95: Interval | None


@dataclass(frozen=True, kw_only=True)
class MapsView:
    """The maps of one run, the best first, and a sentence about it."""

    sentence: str
    n: int
    found: tuple[MapView, ...]


def view_maps(data: Document) -> MapsView | None:
    """The part `maps` of a summary; None if only one map was measured."""
    maps = data.part("maps")
    if not maps.content:
        return None
    found = tuple(_one(name, part) for name, part in maps.parts("found").items())
    return MapsView(sentence=maps.text("sentence"), n=maps.count("n"), found=found)


def _one(name: str, data: Document) -> MapView:
    behind = data.part("behind_best")
    return MapView(
        name=name,
        attack=data.text("attack"),
        kept=data.number("kept"),
        under_noise=data.number("under_noise"),
        kendall=data.number("kendall"),
        behind=behind.number("mean"),
        behind_ci95=behind.interval("mean_ci95"),
    )
