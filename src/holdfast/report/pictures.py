"""Pictures of the report: images and maps as bytes, with one colour scale per example for all methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.report.overlay import Pixels
from holdfast.report.view import RunView
from holdfast.runs import ExampleRow
from holdfast.runs.panels import Panels, to_bytes

Place = tuple[int, str, int]
"""Number of the run, attack and example."""

_LARGEST_SIDE = 256
_SATURATION = 0.995


@dataclass(frozen=True, kw_only=True)
class Shot:
    """The pictures of one run for one example."""

    view: int
    attack: str
    prediction: int
    perturbed: Pixels  # [H, W] or [H, W, 3]
    clean_map: Pixels  # [H, W], 255 is the top of the scale
    perturbed_map: Pixels
    row: ExampleRow | None = None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One example with the pictures of all runs that kept it."""

    dataset: str
    id: int
    label: int
    name: str
    scale: float  # map value of the brightest colour, in units of the average pixel
    clean: Pixels
    shots: tuple[Shot, ...]


def pictures(views: Sequence[RunView]) -> list[Picture]:
    """All examples with pictures: those shared by most runs first, then those with the most damage.

    Examples that some run does not predict right were not attacked there and come after the others.
    """
    places: dict[tuple[str, int, bytes], list[tuple[int, int]]] = {}
    for number, view in enumerate(views):
        if view.run.panels is not None:
            for at, example in enumerate(view.run.panels.ids.tolist()):
                image = view.run.panels.clean[at].tobytes()  # two datasets with the same name must not share a picture
                places.setdefault((view.group, int(example), image), []).append((number, at))
    rows = _rows(views, {example for _, example, _ in places})
    found = [_picture(views, rows, group, example, where) for (group, example, _), where in places.items()]
    return sorted(found, key=lambda picture: (-len(picture.shots), *_damage(picture)))


def _damage(picture: Picture) -> tuple[bool, float]:
    """Whether some run did not attack the example, and the mean share of top pixels that it keeps in the others."""
    rows = [shot.row for shot in picture.shots if shot.row is not None]
    kept = [share for row in rows if (share := row.score("top_k")) is not None]
    return any(row.outcome == "misclassified" for row in rows), sum(kept) / len(kept) if kept else 1.0


def _rows(views: Sequence[RunView], ids: set[int]) -> dict[Place, ExampleRow]:
    return {
        (number, row.attack, row.id): row
        for number, view in enumerate(views)
        for row in view.run.examples.rows
        if row.id in ids
    }


def _picture(
    views: Sequence[RunView],
    rows: Mapping[Place, ExampleRow],
    dataset: str,
    example: int,
    where: Sequence[tuple[int, int]],
) -> Picture:
    kept = [(number, at, _panels(views[number])) for number, at in where]
    maps = [_reduce(m[at]) for _, at, panels in kept for m in (panels.clean_map, panels.perturbed_map)]
    scale = color_scale(maps)
    shots = tuple(
        Shot(
            view=number,
            attack=panels.attack,
            prediction=int(panels.predictions[at]),
            perturbed=_image(panels.perturbed[at]),
            clean_map=shade(maps[2 * order], scale),
            perturbed_map=shade(maps[2 * order + 1], scale),
            row=rows.get((number, panels.attack, example)),
        )
        for order, (number, at, panels) in enumerate(kept)
    )
    _, at, first = kept[0]
    name = first.names[at] if first.names else ""
    return Picture(
        dataset=dataset,
        id=example,
        label=int(first.labels[at]),
        name=name,
        scale=scale,
        clean=_image(first.clean[at]),
        shots=shots,
    )


def _panels(view: RunView) -> Panels:
    panels = view.run.panels
    if panels is None:
        raise ValueError(f"{view.label} has no panels")  # cannot happen: only runs with panels are passed
    return panels


def _image(image: NDArray[Any]) -> Pixels:
    """Convert an image [C, H, W] of any stored type to bytes [H, W] or [H, W, 3]."""
    pixels = to_bytes(image).transpose(1, 2, 0)
    reduced = np.rint(_reduce(pixels)).astype(np.uint8)
    return reduced[..., 0] if reduced.shape[-1] == 1 else reduced


def _reduce(grid: NDArray[Any]) -> NDArray[np.float64]:
    """Average [H, W, ...] over square blocks so that no side is above 256."""
    factor = -(-max(grid.shape[:2]) // _LARGEST_SIDE)
    height, width = (side // factor * factor for side in grid.shape[:2])
    rest = grid.shape[2:]
    blocks = grid[:height, :width].astype(np.float64).reshape(height // factor, factor, width // factor, factor, *rest)
    reduced: NDArray[np.float64] = np.nan_to_num(blocks.mean((1, 3)), nan=0.0, posinf=0.0, neginf=0.0)
    return reduced


def color_scale(maps: Sequence[NDArray[np.float64]]) -> float:
    """The value at the top of the colour scale: 99.5 % of the pixels of all maps are below it."""
    pooled = np.concatenate([np.abs(m).ravel() for m in maps])
    top = float(np.quantile(pooled, _SATURATION)) or float(pooled.max())
    return top or 1.0


def shade(grid: NDArray[np.float64], scale: float) -> Pixels:
    return np.rint(np.clip(np.abs(grid) / scale, 0, 1) * 255).astype(np.uint8)
