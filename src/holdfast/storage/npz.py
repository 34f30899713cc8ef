"""A strict reader of `.npz` files: no pickle, and the size of each array is checked before it is allocated."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from holdfast.errors import DataError, reason

_MAX_BYTES = 8 << 30


class Npz:
    """The arrays of an open `.npz` file, each read on demand; members may be stored, deflated, bzip2 or LZMA."""

    def __init__(self, archive: zipfile.ZipFile, name: str, max_bytes: int) -> None:
        self._archive = archive
        self._name = name
        self._max_bytes = max_bytes
        self.names = tuple(entry.removesuffix(".npy") for entry in archive.namelist())

    def read(self, name: str) -> NDArray[Any]:
        """Read the array `name`."""
        if name not in self.names:
            raise DataError(f"expected an array {name!r} in {self._name}, found {', '.join(self.names) or 'nothing'}.")
        with _damage(f"{name!r} in {self._name}"):
            info = self._archive.getinfo(f"{name}.npy")
            self._check(info)
            with self._archive.open(info) as file:
                array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
                return array

    def _check(self, info: zipfile.ZipInfo) -> None:
        with self._archive.open(info) as file:
            version = npy.read_magic(file)
            readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
            if version not in readers:
                raise DataError(f"expected .npy format 1.0 or 2.0, found {version} for {info.filename}.")
            shape, _, dtype = readers[version](file)
            if dtype.hasobject:
                raise DataError(f"expected plain numbers in {info.filename}, found Python objects, which need pickle.")
            size = file.tell() + math.prod(shape) * dtype.itemsize
        if size != info.file_size or size > self._max_bytes:
            raise DataError(
                f"expected {size} bytes (at most {self._max_bytes}) in {info.filename}, found {info.file_size}."
            )


@contextmanager
def open_npz(path: Path, *, max_bytes: int = _MAX_BYTES) -> Iterator[Npz]:
    """Open `path` for reading; arrays of more than `max_bytes` are rejected."""
    with _damage(path.name):
        archive = zipfile.ZipFile(path)
    with archive:
        yield Npz(archive, path.name, max_bytes)


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Convert the errors of zipfile, the decompressors and NumPy for a damaged file into one DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"cannot read {what}: {reason(error)}; the file is damaged or not an .npz.") from error


def write_npz(path: Path, **arrays: NDArray[Any]) -> None:
    """Write an uncompressed `.npz`: three times the size of a compressed one, but loaded in a tenth of the time."""
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
