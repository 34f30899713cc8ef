"""User data: a folder of images with class folders or `labels.csv`, with or without `train` and `test` above them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.data.dataset import Dataset, make_dataset
from holdfast.data.datasets.listing import TABLE, Listing, list_class_folders, list_table, list_unlabelled, some
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.formats.geometry import Geometry, proportions_note
from holdfast.data.formats.images import UnreadableImageError, decode, probe
from holdfast.data.subsets import hold_out
from holdfast.errors import DataError, expected

T = TypeVar("T")


def load_folder(
    path: Path,
    split: str,
    *,
    size: int | tuple[int, int] | None = None,
    crop: int | tuple[int, int] | None = None,
    resample: str = "bilinear",
    holdout: float | int | None = None,
    holdout_seed: int = 0,
    unlabelled: bool = False,
    skip_unreadable: bool = False,
) -> Dataset:
    """Load one split. Classes are the sorted folder names; images are sorted by path.

    A folder without class folders needs a table `labels.csv` with the columns file and label. `size` (height and width,
    or one number for both) resizes the images; without it they must all have the same size. With `crop`, one number as
    `size` is the shorter side, and the centre is cut out after resizing. Without `train` and `test` folders, `holdout`
    (fraction or count) holds out the test part; split "all" takes all images. `unlabelled` loads every image below the
    folder as a single class, for use without labels. `skip_unreadable` leaves damaged files out and notes their names;
    otherwise the first one is an error.
    """
    geometry = Geometry(size=size, crop=crop, resample=resample)
    divided = is_divided(path) and not unlabelled
    if not unlabelled:
        _check_split(split, divided, holdout)
    listing = _listed(path, split, divided=divided, unlabelled=unlabelled)
    if not divided and not unlabelled and split != "all" and holdout is not None:
        chosen = hold_out(np.array(listing.labels), holdout, holdout_seed)[split]
        listing = listing.take(chosen.tolist())
    read = _read(listing, geometry, skip_unreadable)
    return make_dataset(
        read.arrays,
        name=path.name or path.resolve().name,
        split=split,
        class_names=listing.class_names,
        source=_source(path, listing, read, unlabelled),
        notes=(*listing.notes, *read.notes),
        file_names=read.names,
    )


def is_divided(path: Path) -> bool:
    """Whether a folder has folders `train` and `test`."""
    return (path / "train").is_dir() and (path / "test").is_dir()


@dataclass(frozen=True, kw_only=True)
class _Read:
    """The decoded images with the names of their files, those of files that could not be read, and notes on sizes."""

    arrays: Arrays
    names: tuple[str, ...]
    unreadable: tuple[str, ...]
    total: int
    resized: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.unreadable:
            return self.resized
        count = f"{len(self.unreadable)} of {self.total} image files"
        return (f"{count} cannot be read and are left out: {some(self.unreadable)}", *self.resized)


def _check_split(split: str, divided: bool, holdout: float | int | None) -> None:
    if divided and (split == "all" or holdout is not None):
        wrong = ["split='all'"] if split == "all" else []
        wrong += [] if holdout is None else [f"holdout={holdout}"]
        what = "split 'train' or 'test' and no holdout for a folder with train and test"
        raise expected(what, got=" and ".join(wrong))
    if not divided and split != "all" and holdout is None:
        raise expected(
            "folders train and test, or a holdout",
            got="a folder of class folders",
            fix="pass holdout=0.2 to hold out a fifth for testing, or split='all' to use everything",
        )


def _listed(path: Path, split: str, *, divided: bool, unlabelled: bool) -> Listing:
    if unlabelled:
        return list_unlabelled(path)
    here = path / split if divided else path
    if (here / TABLE).is_file():
        return list_table(here)
    return list_class_folders(here, _class_names([path / "train", path / "test"] if divided else [path]))


def _class_names(folders: list[Path]) -> tuple[str, ...]:
    found = {entry.name for folder in folders for entry in folder.iterdir() if entry.is_dir()}
    names = tuple(sorted(name for name in found if not name.startswith(".")))
    if not names:
        fix = f"sort the images into one folder per class, or add a table {TABLE} with the columns file and label"
        raise DataError(f"expected a folder for each class in {folders[0]}, found none; {fix}.")
    return names


@dataclass(frozen=True)
class _Damage:
    """Collects the errors of files that cannot be read, by position; raises the first one unless they are skipped."""

    skip: bool
    errors: dict[int, UnreadableImageError] = field(default_factory=dict)

    def tried(self, at: int, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except UnreadableImageError as error:
            if not self.skip:
                raise
            self.errors[at] = error
            return None


def _read(listing: Listing, geometry: Geometry, skip: bool) -> _Read:
    """Decode all images of a listing to one array; the headers are read first, to find the size and the channels."""
    damage, paths = _Damage(skip), listing.paths
    tried = {at: damage.tried(at, partial(probe, path)) for at, path in enumerate(paths)}
    headers = {at: found for at, found in tried.items() if found is not None}
    if not headers:
        raise damage.errors[0]
    height, width = geometry.fixed or _one_size([shape for shape, _ in headers.values()])
    mode = "L" if all(kind in ("1", "L") for _, kind in headers.values()) else "RGB"
    x = np.empty((len(headers), height, width, len(mode)), np.uint8)  # one channel for L, three for RGB
    kept: list[int] = []
    for at in headers:
        pixels = damage.tried(at, partial(_pixels, paths[at], geometry, mode))
        if pixels is not None:
            x[len(kept)] = pixels.reshape(height, width, -1)
            kept.append(at)
    if not kept:
        raise damage.errors[min(damage.errors)]
    return _Read(
        arrays=make_arrays(x[: len(kept)], np.array([listing.labels[at] for at in kept]), layout="NHWC"),
        names=tuple(listing.name_of(paths[at]) for at in kept),
        unreadable=tuple(listing.name_of(paths[at]) for at in sorted(damage.errors)),
        total=len(paths),
        resized=proportions_note(geometry, [headers[at][0] for at in kept]),
    )


def _pixels(path: Path, geometry: Geometry, mode: str) -> NDArray[np.uint8]:
    return decode(path.read_bytes(), path.name, size=geometry, mode=mode)


def _one_size(shapes: list[tuple[int, int]]) -> tuple[int, int]:
    """The height and width of all images."""
    sizes = Counter(shapes)
    if len(sizes) > 1:
        (common, _), (other, _) = sizes.most_common(2)
        fix = "pass size=N, crop=N to scale them and cut out a square"
        raise expected("images of one size", got=f"{common} and {other}", fix=fix)
    return shapes[0]


def _source(path: Path, listing: Listing, read: _Read, unlabelled: bool) -> str:
    words = [f"{len(read.arrays.y)} images" + (" without labels" if unlabelled else "")]
    words += [f"{listing.ignored} other files ignored"] if listing.ignored and not unlabelled else []
    words += [f"{len(read.unreadable)} unreadable"] if read.unreadable else []
    return f"folder {path.name or path.resolve().name} ({', '.join(words)})"
