"""`load`: the entry point for all datasets."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.data.dataset import Dataset, make_dataset
from holdfast.data.datasets.own_folder import is_divided, load_folder
from holdfast.data.datasets.own_npz import has_split, load_npz
from holdfast.data.registry import SPECS, find_spec
from holdfast.data.sources.kinds import SPLITS, Request
from holdfast.data.sources.obtain import obtain
from holdfast.data.spec import DatasetSpec
from holdfast.data.transforms import Transform, apply
from holdfast.errors import expected


def load(
    name_or_path: str | os.PathLike[str],
    split: str = "train",
    *,
    root: str | os.PathLike[str] | None = None,
    transforms: str | Iterable[str | Transform] = (),
    download: bool = True,
    **options: Any,
) -> Dataset:
    """Load one split of a named dataset, an `.npz` file, or a folder of images (class folders or `labels.csv`).

    `root` is a folder (or archive, or `.npz`) with the files of a named dataset. `download=False` uses local sources
    only. `transforms` are names or functions, applied in order. Further options depend on the dataset: `train=55000`
    for mnist and fashion-mnist; `holdout`, `holdout_seed` for data without a split; `size`, `crop`, `resample`,
    `skip_unreadable`, `unlabelled` for folders; `layout`, `quantize` for `.npz`.

    >>> len(load("digits", split="test"))
    360
    """
    if os.fspath(name_or_path) in SPECS:
        spec = find_spec(os.fspath(name_or_path))
        request = Request(root=None if root is None else Path(root).expanduser())
        dataset = load_named(spec, split, request, download=download, **options)
    else:
        dataset = _load_own(Path(name_or_path).expanduser(), split, root, options)
    return apply(dataset, [transforms] if isinstance(transforms, str) else transforms)


def load_named(spec: DatasetSpec, split: str, request: Request, *, download: bool = True, **options: Any) -> Dataset:
    """Load one split of the dataset that `spec` describes, in the variant selected by `options`."""
    _check_split(split, tuple(spec.counts))
    _check_options(spec.variant, options, spec.name)
    arrays, source = obtain(spec, split, request, download=download)
    dataset = make_dataset(
        arrays,
        name=spec.name,
        split=split,
        class_names=spec.class_names,
        source=source.name,
        checksum=spec.checksums[split],
    )
    return spec.variant(dataset, **options)


def default_split(path: Path) -> str:
    """The part of user data to measure on if none is named: test where the data has one, otherwise all.

    >>> default_split(Path("digits"))
    'test'
    """
    if path.is_dir():
        return "test" if is_divided(path) else "all"
    return "all" if path.suffix == ".npz" and path.is_file() and not has_split(path) else "test"


def _load_own(path: Path, split: str, root: object, options: Mapping[str, Any]) -> Dataset:
    door = load_folder if path.is_dir() else load_npz
    if not path.exists() or (door is load_npz and path.suffix != ".npz"):
        find_spec(str(path))  # raises an error that lists the known names
    if root is not None:
        raise expected("root only with a dataset's name", got=f"root={root!r} with the path {path}", fix="leave it out")
    _check_split(split, (*SPLITS, "all"))
    _check_options(door, options, str(path))
    return door(path, split, **options)


def _check_split(split: str, splits: tuple[str, ...]) -> None:
    if split not in splits:
        raise expected(f"split to be one of {', '.join(splits)}", got=repr(split))


def _check_options(taker: Callable[..., Dataset], options: Mapping[str, Any], name: str) -> None:
    parameters = inspect.signature(taker).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise expected(f"options of {name} ({', '.join(known) or 'it has none'})", got=", ".join(unknown))
