"""User data in an `.npz` file: `x_train, y_train, x_test, y_test`, or `x, y` with a hold-out."""

from pathlib import Path

import numpy as np

from holdfast.data.dataset import Dataset, make_dataset
from holdfast.data.formats.arrays import MAX_CLASSES, make_arrays, to_labels
from holdfast.data.subsets import hold_out
from holdfast.errors import DataError
from holdfast.storage.npz import Npz, open_npz


def load_npz(
    path: Path,
    split: str,
    *,
    layout: str | None = None,
    quantize: bool = False,
    holdout: float | int | None = None,
    holdout_seed: int = 0,
    unlabelled: bool = False,
) -> Dataset:
    """Load one split of the file. An array of strings `class_names` in the file, if present, names the classes.

    `layout` (NHWC, NCHW or NHW) is needed if the shape is ambiguous. `quantize` rounds floats that are not multiples of
    1/255. For a file with only `x` and `y`, `holdout` (fraction or count) holds out the test part; split "all" takes
    all examples. `unlabelled` takes the images `x` as a single class, for use without labels.
    """
    if unlabelled:
        return _as_one_class(path, layout, quantize)
    with open_npz(path) as npz:
        whole = f"x_{split}" not in npz.names
        suffix = "" if whole else f"_{split}"
        _check_names(npz, split, whole, holdout)
        arrays = make_arrays(npz.read(f"x{suffix}"), npz.read(f"y{suffix}"), layout=layout, quantize=quantize)
        class_names = _class_names(npz)
    if whole and split != "all" and holdout is not None:
        arrays = arrays.take(hold_out(arrays.y, holdout, holdout_seed)[split])
    return make_dataset(arrays, name=path.stem, split=split, class_names=class_names, source=f"npz {path.name}")


def _as_one_class(path: Path, layout: str | None, quantize: bool) -> Dataset:
    with open_npz(path) as npz:
        x = npz.read("x")
    arrays = make_arrays(x, np.zeros(len(x), np.int64), layout=layout, quantize=quantize)
    source = f"npz {path.name} without labels"
    return make_dataset(arrays, name=path.stem, split="all", class_names=("unlabelled",), source=source)


def has_labels(path: Path) -> bool:
    """Whether the file has labels."""
    with open_npz(path) as npz:
        return any(name in npz.names for name in ("y", "y_test"))


def has_split(path: Path) -> bool:
    """Whether the file has a test part of its own."""
    with open_npz(path) as npz:
        return "x_test" in npz.names


def _check_names(npz: Npz, split: str, whole: bool, holdout: float | int | None) -> None:
    if not whole:
        if holdout is not None:
            raise DataError("expected no holdout for a file with x_train and x_test, found one; leave it out.")
        return
    if not {"x", "y"} <= set(npz.names):
        raise DataError(f"expected arrays x_train, y_train, x_test, y_test (or x, y), found {', '.join(npz.names)}.")
    if split != "all" and holdout is None:
        raise DataError(
            f"expected x_{split} and y_{split}, found x and y without a split; "
            "pass holdout=0.2 to hold out a fifth for testing, or split='all' to use everything."
        )


def _class_names(npz: Npz) -> tuple[str, ...]:
    """Class names from the file, or the numbers from 0 to the largest label of any split."""
    if "class_names" in npz.names:
        names = npz.read("class_names")
        if names.ndim != 1 or len(names) > MAX_CLASSES:
            raise DataError(f"expected class_names as a list of at most {MAX_CLASSES}, found shape {names.shape}.")
        return tuple(str(name) for name in names)
    labels = [to_labels(npz.read(name)) for name in ("y_train", "y_test", "y") if name in npz.names]
    return tuple(str(label) for label in range(max(int(y.max(initial=0)) for y in labels) + 1))
