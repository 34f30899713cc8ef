"""User data: a folder with one folder of images per class, with or without `train` and `test` above them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.data.dataset import Dataset, make_dataset
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.formats.images import decode, probe
from holdfast.data.subsets import hold_out
from holdfast.errors import DataError, expected

SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def load_folder(
    path: Path,
    split: str,
    *,
    size: int | tuple[int, int] | None = None,
    holdout: float | int | None = None,
    holdout_seed: int = 0,
    unlabelled: bool = False,
) -> Dataset:
    """Load one split. Classes are the sorted folder names; images are sorted by path.

    `size` (height and width, or one number for both) resizes the images; without it they must all have the same size.
    Without `train` and `test` folders, `holdout` (fraction or count) holds out the test part; split "all" takes all
    images. `unlabelled` loads every image below the folder as a single class, for use without labels.
    """
    if unlabelled:
        return _as_one_class(path, split, _pair(size))
    divided = (path / "train").is_dir() and (path / "test").is_dir()
    _check_split(split, divided, holdout)
    class_names = _class_names([path / "train", path / "test"] if divided else [path])
    listing = _list(path / split if divided else path, class_names)
    if not divided and split != "all" and holdout is not None:
        chosen = hold_out(np.array(listing.labels), holdout, holdout_seed)[split]
        listing = listing.take(chosen.tolist())
    arrays = _read(listing, _pair(size))
    ignored = f", {listing.ignored} other files ignored" if listing.ignored else ""
    source = f"folder {path.name} ({len(listing.paths)} images{ignored})"
    return make_dataset(arrays, name=path.name, split=split, class_names=class_names, source=source)


def _as_one_class(path: Path, split: str, size: tuple[int, int] | None) -> Dataset:
    listing = _list(path, (".",))
    source = f"folder {path.name} ({len(listing.paths)} images without labels)"
    return make_dataset(_read(listing, size), name=path.name, split=split, class_names=("unlabelled",), source=source)


@dataclass(frozen=True, kw_only=True)
class _Listing:
    paths: list[Path]
    labels: list[int]
    ignored: int

    def take(self, indices: list[int]) -> "_Listing":
        paths, labels = [self.paths[i] for i in indices], [self.labels[i] for i in indices]
        return _Listing(paths=paths, labels=labels, ignored=self.ignored)


def _check_split(split: str, divided: bool, holdout: float | int | None) -> None:
    if divided and (split == "all" or holdout is not None):
        raise expected("split 'train' or 'test' and no holdout for a folder with train and test", got=(split, holdout))
    if not divided and split != "all" and holdout is None:
        raise expected(
            "folders train and test, or a holdout",
            got="a folder of class folders",
            fix="pass holdout=0.2 to hold out a fifth for testing, or split='all' to use everything",
        )


def _class_names(folders: list[Path]) -> tuple[str, ...]:
    found = {entry.name for folder in folders for entry in folder.iterdir() if entry.is_dir()}
    names = tuple(sorted(name for name in found if not name.startswith(".")))
    if not names:
        raise DataError(f"expected a folder for each class in {folders[0]}, found none; see the documentation of load.")
    return names


def _list(folder: Path, class_names: tuple[str, ...]) -> _Listing:
    paths: list[Path] = []
    labels: list[int] = []
    ignored = 0
    for label, name in enumerate(class_names):
        files = [file for file in (folder / name).rglob("*") if file.is_file()]
        images = [file for file in files if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")]
        # Sort by posix path, so that the order does not depend on the file system or its separator.
        paths += sorted(images, key=lambda file: file.relative_to(folder).as_posix())
        labels += [label] * len(images)
        ignored += len(files) - len(images)
    if not paths:
        raise DataError(f"expected images ({', '.join(SUFFIXES)}) in the class folders of {folder}, found none.")
    return _Listing(paths=paths, labels=labels, ignored=ignored)


def _read(listing: _Listing, size: tuple[int, int] | None) -> Arrays:
    headers = [probe(path) for path in listing.paths]
    sizes = Counter(shape for shape, _ in headers)
    if size is None and len(sizes) > 1:
        (common, _), (other, _) = sizes.most_common(2)
        raise expected(
            "images of one size", got=f"{common} and {other}", fix="pass size=(height, width) to resize them"
        )
    height, width = size or next(iter(sizes))
    mode = "L" if all(kind in ("1", "L") for _, kind in headers) else "RGB"
    x = np.empty((len(headers), height, width, len(mode)), np.uint8)  # one channel for L, three for RGB
    for index, path in enumerate(listing.paths):
        pixels = decode(path.read_bytes(), path.name, size=(height, width), mode=mode)
        x[index] = pixels.reshape(height, width, -1)
    return make_arrays(x, np.array(listing.labels), layout="NHWC")


def _pair(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise expected("size as a positive height and width", got=size)
    return height, width
