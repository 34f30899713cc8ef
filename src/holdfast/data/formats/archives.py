"""Read files from folders, zip and tar archives into memory, within size limits.

Nothing is extracted to disk. An archive is rejected as a whole if a member would leave its folder, is a link or a
device, or exceeds a size limit. The check runs before that member is decompressed.
"""

import gzip
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from holdfast.errors import DataError, reason
from holdfast.storage.files import read_bounded

Reader = Callable[[str], bytes]
"""Maps a relative posix file name to the content of the file; raises FileNotFoundError if there is none."""

_ZIPS = (".zip",)
_TARS = (".tar", ".tgz", ".tar.gz")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on an archive: number of members, bytes per member, total bytes (uncompressed)."""

    members: int = 200_000
    file_bytes: int = 256 << 20
    total_bytes: int = 4 << 30


def is_archive(name: str) -> bool:
    """Whether a file with this name is opened as an archive."""
    return name.endswith(_ZIPS + _TARS)


@contextmanager
def open_files(
    folder: Path, names: Iterable[str] = (), *, prefix: str = "", limits: Limits | None = None
) -> Iterator[Reader]:
    """Open a reader for `folder`: first the existing archives in `names`, in order, then plain files (also `.gz`)."""
    limits = limits or Limits()
    archives = [folder / name for name in names if is_archive(name) and (folder / name).is_file()]
    with ExitStack() as stack:
        readers = [_open_archive(path, limits, stack) for path in archives]
        readers.append(_folder_reader(folder, limits))
        yield lambda name: _first(readers, prefix + name)


def _first(readers: Iterable[Reader], name: str) -> bytes:
    for reader in readers:
        try:
            return reader(name)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{name} is missing")


def _open_archive(path: Path, limits: Limits, stack: ExitStack) -> Reader:
    try:
        if path.name.endswith(_ZIPS):
            return _zip_reader(stack.enter_context(zipfile.ZipFile(path)), limits)
        return _tar_reader(path, limits)
    except DataError:
        raise
    except Exception as error:  # zip, tar and the decompressors raise many kinds of exceptions
        raise DataError(f"cannot read {path.name}: {reason(error)}; the file is damaged, download it again.") from error


def _zip_reader(archive: zipfile.ZipFile, limits: Limits) -> Reader:
    budget = _Budget(limits)
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        plain = kind in (0, stat.S_IFREG, stat.S_IFDIR) and not info.flag_bits & 1
        # Check orig_filename: in filename, ZipFile has already replaced backslashes and truncated at NUL.
        budget.admit(info.orig_filename, info.file_size, plain=plain)
        members[info.filename] = info

    def read(name: str) -> bytes:
        if name not in members:
            raise FileNotFoundError(f"{name} is missing")
        try:
            # ZipFile reads at most the declared size, which the budget has already checked.
            return archive.read(members[name])
        except Exception as error:
            raise DataError(
                f"cannot read {name}: {reason(error)}; the archive is damaged, download it again."
            ) from error

    return read


def _tar_reader(path: Path, limits: Limits) -> Reader:
    """Read all members in one pass, since a compressed tar has no random access."""
    budget = _Budget(limits)
    members: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for info in archive:
            budget.admit(info.name, info.size, plain=info.isfile() or info.isdir())
            file = archive.extractfile(info)
            if file is not None:
                members[str(PurePosixPath(info.name))] = file.read()

    def read(name: str) -> bytes:
        if name not in members:
            raise FileNotFoundError(f"{name} is missing")
        return members[name]

    return read


def _folder_reader(folder: Path, limits: Limits) -> Reader:
    def read(name: str) -> bytes:
        check_name(name)
        path = folder / name
        if path.is_file():
            return read_bounded(path, limits.file_bytes)
        packed = path.with_name(path.name + ".gz")
        if packed.is_file():
            return gunzip(packed, limits.file_bytes)
        raise FileNotFoundError(f"{name} is missing")

    return read


def gunzip(path: Path, limit: int) -> bytes:
    """The decompressed content of a `.gz` file; raises if it exceeds `limit` bytes."""
    try:
        with gzip.open(path) as file:
            data = file.read(limit + 1)
    except Exception as error:
        raise DataError(f"cannot read {path.name}: {reason(error)}; the file is damaged, download it again.") from error
    if len(data) > limit:
        raise DataError(f"expected at most {limit} bytes in {path.name}, found more; this is not the dataset's file.")
    return data


def check_name(name: str) -> None:
    """Reject a member name that could point outside its folder, on any platform."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise DataError(f"expected member paths inside the archive, found {name!r}; the archive is not safe to read.")


class _Budget:
    """Counts the members and bytes of one archive against its limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.members = 0
        self.total = 0

    def admit(self, name: str, size: int, *, plain: bool) -> None:
        check_name(name)
        if not plain:
            raise DataError(
                f"expected regular files and folders, found {name!r}, which is a link, a device or encrypted."
            )
        self.members += 1
        self.total += size
        self._hold("members", self.members, self.limits.members)
        self._hold(f"bytes in {name!r}", size, self.limits.file_bytes)
        self._hold("bytes in total", self.total, self.limits.total_bytes)

    @staticmethod
    def _hold(what: str, found: int, limit: int) -> None:
        if found > limit:
            raise DataError(f"expected at most {limit} {what}, found {found}; this is not the dataset's archive.")
