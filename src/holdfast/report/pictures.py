"""Pictures of the report: images and maps as small PNGs, with one colour scale per example for all methods."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.report.view import RunView
from holdfast.runs.panels import Panels, to_bytes

Pixels = NDArray[np.uint8]
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
    """All examples with pictures, those shared by most runs first."""
    places: dict[tuple[str, int, bytes], list[tuple[int, int]]] = {}
    for number, view in enumerate(views):
        if view.run.panels is not None:
            for at, example in enumerate(view.run.panels.ids.tolist()):
                image = view.run.panels.clean[at].tobytes()  # two datasets with the same name must not share a picture
                places.setdefault((view.dataset, int(example), image), []).append((number, at))
    found = [_picture(views, dataset, example, where) for (dataset, example, _), where in places.items()]
    return sorted(found, key=lambda picture: -len(picture.shots))


def png_uri(pixels: Pixels) -> str:
    """Pixels [H, W] or [H, W, 3] as a PNG `data:` address."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _picture(views: Sequence[RunView], dataset: str, example: int, where: Sequence[tuple[int, int]]) -> Picture:
    kept = [(number, at, _panels(views[number])) for number, at in where]
    maps = [_reduce(m[at]) for _, at, panels in kept for m in (panels.clean_map, panels.perturbed_map)]
    scale = _scale(maps)
    shots = tuple(
        Shot(
            view=number,
            attack=panels.attack,
            prediction=int(panels.predictions[at]),
            perturbed=_image(panels.perturbed[at]),
            clean_map=_shade(maps[2 * order], scale),
            perturbed_map=_shade(maps[2 * order + 1], scale),
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


def _scale(maps: Sequence[NDArray[np.float64]]) -> float:
    """The value at the top of the colour scale: 99.5 % of the pixels of all maps are below it."""
    pooled = np.concatenate([np.abs(m).ravel() for m in maps])
    top = float(np.quantile(pooled, _SATURATION)) or float(pooled.max())
    return top or 1.0


def _shade(grid: NDArray[np.float64], scale: float) -> Pixels:
    return np.rint(np.clip(np.abs(grid) / scale, 0, 1) * 255).astype(np.uint8)
