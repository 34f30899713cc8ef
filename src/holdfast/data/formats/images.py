"""Decode image files to pixel arrays with Pillow."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.data.formats.geometry import Geometry
from holdfast.errors import DataError, reason

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "PPM", "BMP", "GIF", "WEBP", "TIFF")
"""The only Pillow decoders used, whatever the file name. Some others start external programs (EPS)."""

MAX_PIXELS = 89_478_485
"""An image that declares a larger size is rejected before decoding; Pillow only warns at this size."""

EIGHT_BIT = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
"""Pillow modes that convert to L or RGB without loss of bit depth."""

BITS_PER_SAMPLE = 258
"""Number of the TIFF tag with the bits of each channel."""


class UnreadableImageError(DataError):
    """An image file that Pillow cannot decode: damaged, truncated or of another kind."""


def decode(
    data: bytes,
    name: str,
    *,
    size: tuple[int, int] | Geometry | None = None,
    box: tuple[int, int, int, int] | None = None,
    mode: str = "RGB",
) -> NDArray[np.uint8]:
    """Decode, convert to `mode`, crop to `box` (left, upper, right, lower), resize to `size` (H, W): [H, W(, C)].

    Resizing uses Pillow's BILINEAR, which antialiases when it shrinks an image. A `Geometry` as `size` also crops the
    centre and names the filter.
    """
    image = _open(data, name).convert(mode)
    if box is not None:
        image = image.crop(_inside(box, image.size, name))
    if size is not None:
        image = (size if isinstance(size, Geometry) else Geometry(size=size)).apply(image, name)
    return np.asarray(image, dtype=np.uint8)


def probe(path: Path) -> tuple[tuple[int, int], str]:
    """Size (H, W) and mode of an image file, read from its header only."""
    from PIL import Image

    with _damage(path.name), Image.open(path, formats=FORMATS) as image:
        _check_size(image, path.name)
        return (image.height, image.width), image.mode


def _open(data: bytes, name: str) -> "Image":
    from PIL import Image

    with _damage(name):
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        _check_size(image, name)
        mode = f"{image.mode};16" if image.mode in EIGHT_BIT and _has_16_bits(image, data) else image.mode
        image.load()
    if mode not in EIGHT_BIT:
        raise DataError(f"expected an 8-bit image, found {name} of mode {mode}; convert it to 8 bits per channel.")
    return image


def _has_16_bits(image: "Image", data: bytes) -> bool:
    """Whether a PNG or TIFF file has 16 bits per channel: in colour, Pillow reduces them to 8 without a warning."""
    from PIL.TiffImagePlugin import TiffImageFile

    if image.format == "PNG":
        return data[24] == 16  # the bit depth in the header IHDR, which comes first
    return isinstance(image, TiffImageFile) and 16 in image.tag_v2.get(BITS_PER_SAMPLE, ())


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Convert the exceptions of Pillow's decoders for a damaged file to an UnreadableImageError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about unused metadata; `_check_size` checks the size
        try:
            yield
        except DataError:
            raise
        except Exception as error:
            raise UnreadableImageError(f"cannot read image {name}: {reason(error)}.") from error


def _check_size(image: "Image", name: str) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise DataError(f"expected at most {MAX_PIXELS} pixels in {name}, found {image.width} x {image.height}.")


def _inside(box: tuple[int, int, int, int], size: tuple[int, int], name: str) -> tuple[int, int, int, int]:
    left, upper, right, lower = box
    if not (0 <= left < right <= size[0] and 0 <= upper < lower <= size[1]):
        raise DataError(f"expected a crop inside the {size[0]}x{size[1]} image {name}, found {box}.")
    return box
