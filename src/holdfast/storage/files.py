"""Atomic writes: files and folders appear under their final name only when they are complete and flushed to disk.

All holdfast files are written through this module: first into a temporary neighbour whose name starts with `.part-`,
which is then renamed to the final name. Append-only files (`storage/lines.py`) are the only exception.
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
"""Prefix of unfinished files and folders; the process that holds the lock of a folder may delete them."""

_ABANDONED = 3600.0  # seconds without a write after which a temporary file counts as abandoned


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Convert write errors inside the block into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        fix = "free some space or choose another folder (existing files are unchanged)"
        raise DataError(f"cannot write {path}: {error.strerror or error}; {fix}.") from error


def write_file(path: Path, content: bytes) -> None:
    """Write `content` atomically; missing parent folders are created."""
    write_with(path, lambda part: _write(part, content))


def write_with(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file, then rename it; `path` is always the old file or the complete new one."""
    # Not `tempfile`: its files are readable only by their owner, but a cache may be shared.
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
    """Write a folder under a temporary name, then rename it: if `folder` exists, it is complete."""
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
    """Delete a folder, renaming it first, so that a crash never leaves a partial folder under its name."""
    part = folder.with_name(f"{PART}old-{folder.name}")
    with disk_errors(folder):
        if folder.exists():
            shutil.rmtree(part, ignore_errors=True)
            os.rename(folder, part)
            shutil.rmtree(part)


def sweep(folder: Path) -> None:
    """Delete temporary files left by a killed process; call only while holding the folder's lock."""
    for part in folder.glob(PART + "*"):
        with disk_errors(part):
            shutil.rmtree(part) if part.is_dir() else part.unlink()


def sync_file(path: Path) -> None:
    """Flush a file's content to disk, so that a crash after the rename cannot leave it empty."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk; possible and necessary only on POSIX systems."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file; raise a DataError before reading if it has more than `limit` bytes."""
    size = path.stat().st_size
    if size > limit:
        raise DataError(f"expected at most {limit} bytes in {path}, got {size}; check that it is the right file.")
    return path.read_bytes()


def _drop_abandoned(path: Path) -> None:
    """Delete temporary files of `path` left by a killed process, in folders without a lock such as the data cache."""
    for part in path.parent.glob(f"{PART}{path.name}.*"):
        try:
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink()
        except OSError:
            continue  # another process has already deleted it


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
