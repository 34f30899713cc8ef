"""The cache folder: verified splits as uncompressed `.npz` files, written atomically."""

import os
import sys
from pathlib import Path

from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.storage.files import write_with
from holdfast.storage.npz import open_npz, write_npz

VARIABLE = "HOLDFAST_DATA"


def cache_folder() -> Path:
    """`$HOLDFAST_DATA` if set, else `holdfast` in the platform's user cache."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "holdfast"


def split_path(folder: Path, name: str, split: str) -> Path:
    """Path of the file that holds one split."""
    return folder / f"{name}-{split}.npz"


def read_split(path: Path) -> Arrays:
    """Read a split written by `store_split`; the caller verifies its checksum."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    with open_npz(path) as npz:
        return make_arrays(npz.read("x"), npz.read("y"), layout="NCHW")


def store_split(path: Path, arrays: Arrays) -> None:
    """Write a split atomically: readers see either the old file or the complete new one."""
    write_with(path, lambda part: write_npz(part, x=arrays.x, y=arrays.y))
