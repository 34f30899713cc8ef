"""How images of any size become images of one size: resize, then centre crop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import expected

if TYPE_CHECKING:
    from PIL.Image import Image

Sides = int | tuple[int, int]
"""One number for height and width, or (height, width)."""

FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
"""Pillow's filters. All but `nearest` antialias when they shrink an image."""


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Resize to `size`, then cut `crop` out of the centre; both (height, width) or one number for both.

    With a crop, one number as `size` is the shorter side, and the aspect ratio is kept.

    >>> Geometry(size=256, crop=224).resized(480, 640), Geometry(size=256).resized(480, 640)
    ((256, 341), (256, 256))
    """

    size: Sides | None = None
    crop: Sides | None = None
    resample: str = "bilinear"

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("crop", self.crop)):
            if value is not None and min(pair(value)) < 1:
                raise expected(f"{name} as a positive height and width", got=value)
        if self.resample not in FILTERS:
            raise expected(f"resample to be one of {', '.join(FILTERS)}", got=repr(self.resample))
        outer = pair(self.size or self.crop or 1)
        if self.crop is not None and any(a > b for a, b in zip(pair(self.crop), outer, strict=True)):
            raise expected("crop <= size", got=f"crop {self.crop} and size {self.size}", fix="crop less")

    @property
    def fixed(self) -> tuple[int, int] | None:
        """Height and width of every result, None if they depend on the image."""
        sides = self.size if self.crop is None else self.crop
        return None if sides is None else pair(sides)

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width before the crop."""
        if self.size is None:
            return height, width
        if self.crop is None or isinstance(self.size, tuple):
            return pair(self.size)
        short, long = sorted((height, width))
        other = max(self.size, self.size * long // short)
        return (self.size, other) if height <= width else (other, self.size)

    def keeps_proportions(self, height: int, width: int) -> bool:
        """Whether an image of this size is only scaled before the crop, but for a rounded side."""
        high, wide = self.resized(height, width)
        return abs(high * width - wide * height) < max(height, width)

    def apply(self, image: "Image", name: str) -> "Image":
        """The resized and cropped image; `name` is for the error if it is smaller than the crop."""
        from PIL.Image import Resampling

        height, width = self.resized(image.height, image.width)
        if (image.height, image.width) != (height, width):
            image = image.resize((width, height), Resampling[self.resample.upper()])
        if self.crop is None:
            return image
        high, wide = pair(self.crop)
        if high > height or wide > width:
            got = f"{name} of {height} x {width}"
            raise expected(f"images of at least {high} x {wide}, the crop", got=got, fix="pass size=N to resize them")
        top, left = round((height - high) / 2), round((width - wide) / 2)
        return image.crop((left, top, left + wide, top + high))


def proportions_note(geometry: Geometry, shapes: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """A note on the images, given as (height, width), that are squeezed or stretched; none if there are none."""
    changed = sum(not geometry.keeps_proportions(*shape) for shape in shapes)
    if not changed:
        return ()
    high, wide = geometry.resized(*shapes[0])
    what = f"{changed} of {len(shapes)} images have other proportions than {high} x {wide}"
    return (f"{what} and are squeezed or stretched to it; a crop of the same size keeps their proportions",)


def pair(sides: Sides) -> tuple[int, int]:
    """Height and width.

    >>> pair(224)
    (224, 224)
    """
    return (sides, sides) if isinstance(sides, int) else (sides[0], sides[1])
