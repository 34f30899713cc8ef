"""Tables about the maps themselves: their quality, and control maps under the same attacks."""

from collections.abc import Sequence

from holdfast.report.paper_values import TITLES
from holdfast.report.tables import (
    ATTACK,
    COUNT,
    METHOD,
    Cell,
    Column,
    Table,
    measured,
    metric_column,
    ordered,
    paper_of,
    stat_cell,
)
from holdfast.report.view import RunView, Stat, datasets
from holdfast.runs.controls import AGREEMENT, CONTROL_MAPS
from holdfast.runs.quality import QUALITY

MAP = Column(key="map", title="Map", unit="text")
SIMILARITY = Column(key=AGREEMENT, title="Spearman with the network's map", unit="number")
NATURAL = "natural_spearman"
ATTACKED = "adv_insertion"
_DATASET = (Column(key="dataset", title="Dataset", unit="text"), Column(key="n", title="Images", unit="text"))
_READING = (
    Column(key="measure", title="Measure", unit="text"),
    Column(key="better", title="Better", unit="text"),
    Column(key="range", title="Range", unit="text"),
)


def quality_table(views: Sequence[RunView]) -> Table:
    """Quality of the maps of one dataset, one row per measure and one column per run; empty if none was measured."""
    judged = [view for view in views if view.quality]
    present = {key for view in judged for key in view.quality}
    keys = [*(key for key in QUALITY if key in present), *sorted(present - set(QUALITY))]
    columns = (*_READING, *(Column(key=view.label, title=view.label, unit="number") for view in judged))
    rows = [
        (
            *_reading(key),
            *(stat_cell(view.quality.get(key, Stat()), paper=paper_of(view, key)) for view in judged),
        )
        for key in keys
    ]
    notes = [*_attacks(judged), *(f"{QUALITY[key].title}: {QUALITY[key].meaning}." for key in keys if key in QUALITY)]
    return Table(
        name=f"quality-{views[0].dataset}" if views else "quality",
        title="Quality of the maps",
        columns=columns,
        rows=tuple(rows),
        notes=(_images(judged, keys), *notes) if rows else (),
    )


def natural_maps_table(views: Sequence[RunView]) -> Table:
    """The quality table of the paper: one row per dataset and one column per method; empty if it was not measured."""
    judged = [view for view in views if NATURAL in view.quality]
    labels = list(dict.fromkeys(view.label for view in judged))
    rows = []
    for dataset, group in datasets(judged).items():
        found = {view.label: stat_cell(view.quality[NATURAL], paper=paper_of(view, NATURAL)) for view in group}
        cells = (found.get(label, Cell()) for label in labels)
        rows.append((Cell(value=dataset), Cell(value=_counts(group, (NATURAL,))), *cells))
    return Table(
        name="natural-maps",
        title=TITLES["quality"],
        columns=(*_DATASET, *(Column(key=label, title=label, unit="number") for label in labels)),
        rows=tuple(rows),
        notes=(
            "Median [95 % interval] of Spearman's rho between the maps of both networks for the same clean images.",
            "Paper: Sarkar et al., AAAI 2021, with full training, without intervals.",
            "Two maps that both follow the image agree, too: the tables of quality have each map's rho with the image "
            "and with the map of shuffled weights.",
        ),
    )


def controls_table(views: Sequence[RunView]) -> Table:
    """The network's maps beside control maps under the same perturbed images; empty if no run has measured them."""
    metrics = [metric_column(metric) for metric in measured(views, "headline")]
    rows = []
    for view in views:
        for attack in ordered(view.attacks):
            maps = {"network": attack.metrics} if attack.controls else {}
            maps |= {title: attack.controls[name] for name, title in CONTROL_MAPS.items() if name in attack.controls}
            for title, stats in maps.items():
                names = (Cell(value=view.label), Cell(value=attack.name), Cell(value=title))
                count = next((stat.n for stat in stats.values()), 0)
                cells = (stat_cell(stats.get(column.key, Stat())) for column in (*metrics, SIMILARITY))
                rows.append((*names, Cell(value=count), *cells))
    return Table(
        name=f"controls-{views[0].dataset}" if views else "controls",
        title="Control maps",
        columns=(METHOD, ATTACK, MAP, COUNT, *metrics, SIMILARITY),
        rows=tuple(rows),
        notes=(
            "Median [95 % interval] between the clean and the perturbed image of the same attack; a failed attack "
            "counts as 1.",
            "Image itself: |x| taken as a map. Shuffled weights: the map of the same network with the entries of every "
            "weight tensor in random order.",
            "Stability that does not exceed theirs is not due to what the network has learnt.",
        ),
    )


def _attacks(views: Sequence[RunView]) -> list[str]:
    """A note on the attack of the attacked maps, whose map is the one that is judged; none if no run recorded it."""
    runs: dict[str, list[str]] = {}
    for view in views:
        runs.setdefault(view.quality_attack or "the first attack of the run", []).append(view.label)
    if not any(view.quality_attack for view in views):
        return []
    said = next(iter(runs)) if len(runs) == 1 else "; ".join(f"{name} ({', '.join(of)})" for name, of in runs.items())
    return [f"The maps and attacked maps are those of {said}."]


def _images(views: Sequence[RunView], keys: Sequence[str]) -> str:
    """A note on the number of images, and on those of the attacked maps if any run has measured them."""
    attacked = [view for view in views if ATTACKED in view.quality]
    under_attack = f"; under attack, n = {_counts(attacked, (ATTACKED,))}" if attacked else ""
    return f"Median [95 % interval] over the images, n = {_counts(views, keys)}{under_attack}."


def _counts(views: Sequence[RunView], keys: Sequence[str]) -> str:
    """Number of images of these measures, or the smallest and the largest number over the runs."""
    counts = sorted({max((view.quality[key].n for key in keys if key in view.quality), default=0) for view in views})
    return " to ".join(f"{n:,}" for n in dict.fromkeys((*counts[:1], *counts[-1:])))


def _reading(key: str) -> tuple[Cell, Cell, Cell]:
    """Title, direction and range of a measure; an unknown one has only its name."""
    measure = QUALITY.get(key)
    if measure is None:
        return Cell(value=key.replace("_", " ").capitalize()), Cell(), Cell()
    return Cell(value=measure.title), Cell(value=measure.better), Cell(value=measure.range_text)
