"""Intermediate results of a certification on disk, so that an interrupted one goes on where it stopped."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import DataError
from holdfast.storage.files import write_with
from holdfast.storage.json_files import read_json, write_json_atomic
from holdfast.storage.npz import open_npz, write_npz

FILE = "sample.json"


@dataclass(frozen=True)
class Store:
    """Arrays by name, each in its own file in `folder`; nothing is stored if the folder is None."""

    folder: Path | None = None

    @classmethod
    def claimed(cls, folder: Path | None, parts: Mapping[str, Any]) -> "Store":
        """The store of the computation described by `parts`; DataError if the folder holds another one."""
        if folder is None:
            return cls(None)
        path = folder / FILE
        before = read_json(path) if path.exists() else dict(parts)
        changed = [name for name in parts if name in before and before[name] != parts[name]]
        if changed:
            raise DataError(
                f"expected {folder} to hold noisy maps of this certification, got some with another "
                f"{', '.join(changed)}; use a new folder, or delete this one."
            )
        write_json_atomic(path, before | dict(parts))
        return cls(folder)

    def read(self, name: str) -> NDArray[Any] | None:
        """The array, or None if it is not there."""
        if self.folder is None or not (path := self._path(name)).exists():
            return None
        with open_npz(path) as npz:
            return npz.read("values")

    def write(self, name: str, values: NDArray[Any]) -> None:
        """Write the array atomically."""
        if self.folder is not None:
            write_with(self._path(name), partial(write_npz, values=values))

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.npz"


def tensors_checksum(*tensors: Tensor) -> str:
    """SHA-256 of the bytes of the tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
