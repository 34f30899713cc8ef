"""What happens to an image before a network sees it: geometry and normalisation, and the named normalisations."""

from dataclasses import dataclass

from holdfast.data.formats.geometry import Geometry, Sides
from holdfast.errors import expected

NORMALISATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
}
"""Name -> mean and standard deviation per channel of the training images, for pixels in [0, 1]."""


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Resize, centre crop and normalisation, for pixels in [0, 1]; see `Geometry` for `size` and `crop`."""

    size: Sides | None = None
    crop: Sides | None = None
    resample: str = "bilinear"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @property
    def geometry(self) -> Geometry:
        """The part that changes the size of the image."""
        return Geometry(size=self.size, crop=self.crop, resample=self.resample)

    def __str__(self) -> str:
        words = []
        if self.size is not None:
            side = "shorter side" if self.crop is not None and isinstance(self.size, int) else "resized to"
            words.append(f"{side} {_sides(self.size)} ({self.resample})")
        if self.crop is not None:
            words.append(f"centre crop {_sides(self.crop)}")
        if self.mean is not None or self.std is not None:
            words.append(f"mean {_numbers(self.mean)}, std {_numbers(self.std)}")
        return ", ".join(words) or "none"


def check_normalisation(mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> None:
    """Refuse a mean without a standard deviation, and values for pixels of 0 to 255."""
    if (mean is None) != (std is None):
        given, absent = ("std", "mean=0") if mean is None else ("mean", "std=1")
        raise expected("mean and std together", got=f"{given} alone", fix=f"pass {absent} if there is none")
    for name, values in (("mean", mean), ("std", std)):
        far = next((value for value in values or () if not -1 <= value <= 1), None)
        if far is not None:
            fix = f"divide it by 255: {name}={round(far / 255, 4)}" if abs(far) <= 255 else "check the value"
            raise expected(f"{name} for pixels in [0, 1]", got=far, fix=fix)


def _sides(sides: Sides) -> str:
    return str(sides) if isinstance(sides, int) else f"{sides[0]} x {sides[1]}"


def _numbers(values: tuple[float, ...] | None) -> str:
    return "none" if values is None else ", ".join(f"{value:g}" for value in values)
