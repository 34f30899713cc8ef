"""The cache folder: verified splits as uncompressed `.npz` files, written all or not at all."""

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.data.arrays import Arrays, make_arrays
from holdfast.data.npz_file import open_npz, write_npz

VARIABLE = "HOLDFAST_DATA"


def cache_folder() -> Path:
    """`$HOLDFAST_DATA`, else the platform's user cache."""
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
    """The file that holds one split."""
    return folder / f"{name}-{split}.npz"


def read_split(path: Path) -> Arrays:
    """A split written by `store_split`; its checksum is for the caller to verify."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    with open_npz(path) as npz:
        return make_arrays(npz.read("x"), npz.read("y"), layout="NCHW")


def store_split(path: Path, arrays: Arrays) -> None:
    """Write a split so that readers see either the old file or the whole new one."""
    write_atomically(path, lambda part: write_npz(part, x=arrays.x, y=arrays.y))


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, force it to disk and move it into place; clean up on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile's: its files are for their owner only, and a cache may be shared.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        write(part)
        flush(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Force a file's content to disk, so that a crash after the rename cannot leave it empty."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
