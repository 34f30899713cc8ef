"""Files and folders that appear under their final name whole, forced to disk, or not at all.

Everything in holdfast that writes a file of its own writes it here: into a neighbour whose name starts with `.part-`,
which then takes the final name. Files that grow line by line (`results/lines.py`) are the one exception.
"""

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import DataError

PART = ".part-"
"""Prefix of what is not finished; whoever holds the lock of a folder may delete it."""

_ABANDONED = 3600.0  # seconds without a write after which nobody can still be at it


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the disk refuses inside the block into an error that names the file."""
    try:
        yield
    except OSError as error:
        fix = "free some space or choose another folder, what was there before is untouched"
        raise DataError(f"cannot write {path}: {error.strerror or error}; {fix}.") from error


def write_file(path: Path, content: bytes) -> None:
    """Write `content`, all or nothing; folders above are made."""
    write_with(path, lambda part: _write(part, content))


def write_with(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new file beside `path`; at any instant `path` is the old file or the whole new one."""
    # Not tempfile's: its files are for their owner only, and a cache may be shared.
    part = path.with_name(f"{PART}{path.name}.{secrets.token_hex(4)}")
    with disk_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _drop_abandoned(path)
            write(part)
            sync_file(part)
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)


def publish_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a whole folder beside its place and rename it: `folder` is complete as soon as it exists."""
    part = folder.with_name(PART + folder.name)
    with disk_errors(folder):
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            for name, content in files.items():
                _write(part / name, content)
                sync_file(part / name)
            sync_folder(part)
            discard(folder)
            os.rename(part, folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def discard(folder: Path) -> None:
    """Delete a folder so that a crash on the way never leaves half of it under its name."""
    part = folder.with_name(f"{PART}old-{folder.name}")
    with disk_errors(folder):
        if folder.exists():
            shutil.rmtree(part, ignore_errors=True)
            os.rename(folder, part)
            shutil.rmtree(part)


def sweep(folder: Path) -> None:
    """Delete what a killed process left unfinished; only for the owner of the folder's lock."""
    for part in folder.glob(PART + "*"):
        with disk_errors(part):
            shutil.rmtree(part) if part.is_dir() else part.unlink()


def sync_file(path: Path) -> None:
    """Force a file's content to disk, so that a crash after the rename cannot leave it empty."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk; only POSIX systems can and have to."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a file; one of more than `limit` bytes is refused before it is read."""
    size = path.stat().st_size
    if size > limit:
        raise DataError(f"expected at most {limit} bytes in {path}, got {size}; it is not such a file.")
    return path.read_bytes()


def _drop_abandoned(path: Path) -> None:
    """In folders without a lock, such as the data cache: what a killed process left behind for this very file."""
    for part in path.parent.glob(f"{PART}{path.name}.*"):
        try:
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink()
        except OSError:
            continue  # another process was faster


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
