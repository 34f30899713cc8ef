"""Panels: clean and perturbed images and maps of a few examples, stored with a run."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DataError, InputError, expected, reason
from holdfast.storage.files import write_file
from holdfast.storage.npz import open_npz

Array = NDArray[Any]

_MAX_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Panels:
    """K examples under one attack. Images are bytes in [0, 255] or floats in [0, 1]; maps are non-negative.

    `names` (optional) holds the name of each image, for example its file name.
    """

    attack: str
    ids: Array  # [K]
    labels: Array  # [K]
    predictions: Array  # [K]
    clean: Array  # [K, C, H, W] uint8
    perturbed: Array  # [K, C, H, W] uint8 or float16
    clean_map: Array  # [K, H, W] float16
    perturbed_map: Array  # [K, H, W] float16
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.clean.ndim != 4 or self.clean.shape[1] not in (1, 3):
            raise expected("clean images [K, 1 or 3, H, W]", got=list(self.clean.shape))
        count, _, height, width = self.clean.shape
        shapes = {"ids": (count,), "labels": (count,), "predictions": (count,), "perturbed": self.clean.shape}
        shapes |= dict.fromkeys(("clean_map", "perturbed_map"), (count, height, width))
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape or getattr(self, name).dtype.kind not in "uif":
                raise expected(f"numbers of shape {list(shape)} in {name}", got=list(getattr(self, name).shape))
        if self.names and len(self.names) != count:
            raise expected(f"{count} names or none", got=len(self.names))


def write_panels(path: Path, panels: Panels) -> None:
    """Write `panels.npz` atomically: bytes for clean images, half precision for maps and float images."""
    half = [np.asarray(a, np.float16) for a in (panels.clean_map, panels.perturbed_map)]
    moved = panels.perturbed if panels.perturbed.dtype == np.uint8 else panels.perturbed.astype(np.float16)
    arrays = {
        "attack": np.array(panels.attack),
        "ids": panels.ids.astype(np.int64),
        "labels": panels.labels.astype(np.int64),
        "predictions": panels.predictions.astype(np.int64),
        "clean": to_bytes(panels.clean),
        "perturbed": moved,
        "clean_map": half[0],
        "perturbed_map": half[1],
    }
    if panels.names:
        arrays["names"] = np.array(panels.names)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_file(path, buffer.getvalue())


def read_panels(path: Path) -> Panels:
    """Read `panels.npz` without pickle; the size of each array is checked before it is allocated."""
    fix = "delete it and run `holdfast evaluate` again"
    try:
        with open_npz(path, max_bytes=_MAX_BYTES) as npz:
            found = {name: npz.read(name) for name in npz.names}
        attack, names = str(found.pop("attack")), tuple(str(name) for name in found.pop("names", ()))
        return Panels(attack=attack, names=names, **found)
    except (DataError, InputError, KeyError, TypeError) as error:
        why = f"no array {error}" if isinstance(error, KeyError) else reason(error).rstrip(".")
        raise DataError(f"cannot read {path}: {why}; {fix}.") from error


def to_bytes(image: Array) -> NDArray[np.uint8]:
    """Convert pixels to bytes; floats are clipped to [0, 1] and rounded, NaN becomes 0 (black)."""
    if image.dtype == np.uint8:
        return image
    return np.rint(np.nan_to_num(np.clip(image.astype(np.float64), 0, 1), nan=0.0) * 255).astype(np.uint8)
