"""Decoded images and labels in one canonical form, used for checks, storage and training.

`x` is uint8 [N, C, H, W] and `y` is little-endian int64 [N]. Every file is first converted to this form, so the same
images have the same checksum for every source.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DataError, expected

LAYOUTS = ("NHWC", "NCHW", "NHW")
MAX_CLASSES = 1_000_000
"""Labels must be smaller than this. A larger label is an error, and naming all classes up to it would fill memory."""

_CHANNELS = (1, 3)
# Largest distance from k/255, in grey levels, at which a float pixel counts as exact: a few float32 roundings.
_ROUNDING = 1e-4


@dataclass(frozen=True, eq=False)
class Arrays:
    """One split: `x` uint8 [N, C, H, W] and `y` int64 [N]."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]

    def checksum(self) -> str:
        """SHA-256, in hex, over dtype, shape and bytes of `x`, then of `y`."""
        digest = hashlib.sha256()
        for array in (self.x, self.y):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def take(self, indices: NDArray[np.int64]) -> "Arrays":
        """The examples at `indices`, in that order."""
        return Arrays(self.x[indices], self.y[indices])


def make_arrays(x: NDArray[Any], y: NDArray[Any], *, layout: str | None = None, quantize: bool = False) -> Arrays:
    """Check images and labels and convert them to the canonical form.

    `x` is [N, H, W, C], [N, C, H, W] or [N, H, W]; uint8, or float in [0, 1]. Floats must be multiples of 1/255 unless
    `quantize` is true.

    >>> make_arrays(np.zeros((2, 8, 6, 3), np.uint8), np.array([0, 1])).x.shape
    (2, 3, 8, 6)
    """
    images = _to_nchw(_to_uint8(x, quantize), layout)
    labels = to_labels(y)
    if 0 in images.shape[1:]:
        raise DataError(f"expected images with at least one pixel, found shape {images.shape}.")
    if len(images) != len(labels):
        raise DataError(f"expected as many labels as images, found {len(images)} images and {len(labels)} labels.")
    # np.require copies only read-only or non-contiguous arrays, which torch does not accept.
    return Arrays(np.require(images, requirements=["C", "W", "O"]), np.require(labels, requirements=["C", "W", "O"]))


def _to_uint8(x: NDArray[Any], quantize: bool) -> NDArray[np.uint8]:
    if x.dtype == np.uint8:
        return x
    if not np.issubdtype(x.dtype, np.floating):
        raise DataError(f"expected images of type uint8 or float, found {x.dtype}; convert them to uint8 0..255.")
    if x.size and not (np.isfinite(x).all() and x.min() >= 0 and x.max() <= 1):
        raise DataError(f"expected float pixels in [0, 1], found {x.min():g} to {x.max():g}; divide by their maximum.")
    levels = x.astype(np.float64) * 255
    nearest = np.rint(levels)
    if not quantize and x.size and np.abs(levels - nearest).max() > _ROUNDING:
        raise DataError("expected float pixels that are multiples of 1/255, found others; pass quantize=True to round.")
    return nearest.astype(np.uint8)


def _to_nchw(x: NDArray[np.uint8], layout: str | None) -> NDArray[np.uint8]:
    layout = layout or _guess_layout(x.shape)
    if layout not in LAYOUTS:
        raise expected(f"layout to be one of {', '.join(LAYOUTS)}", got=repr(layout))
    if x.ndim != len(layout):
        raise DataError(f"expected images of {len(layout)} dimensions for layout {layout}, found shape {x.shape}.")
    if layout == "NHW":
        return x[:, None]
    return x.transpose(0, 3, 1, 2) if layout == "NHWC" else x


def _guess_layout(shape: tuple[int, ...]) -> str:
    if len(shape) == 3:
        return "NHW"
    if len(shape) != 4:
        raise DataError(f"expected images [N, H, W], [N, H, W, C] or [N, C, H, W], found shape {shape}.")
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first == last:
        raise DataError(f"cannot tell where the channels are in shape {shape}; pass layout='NHWC' or layout='NCHW'.")
    return "NHWC" if last else "NCHW"


def to_labels(y: NDArray[Any]) -> NDArray[np.int64]:
    """Convert labels to int64; raises if they cannot be class indices."""
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"expected labels as a flat array of integers, found {y.dtype} of shape {y.shape}.")
    if y.size and not 0 <= y.min() <= y.max() < MAX_CLASSES:
        raise DataError(f"expected labels from 0 to {MAX_CLASSES - 1}, found {y.min()} to {y.max()}.")
    return y.astype("<i8")
