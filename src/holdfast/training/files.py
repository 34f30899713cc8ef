"""Files and folders that appear under their final name whole, forced to disk, or not at all."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import DataError

PART = ".part-"
"""Prefix of what is not finished; whoever holds the run directory's lock may delete it."""


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the disk refuses inside the block into an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"could not write {path}: {reason}; what was there before is untouched.") from error


def write_file(path: Path, content: bytes) -> None:
    """Temporary file, fsync, rename, fsync of the folder: at any instant `path` is the old file or the new one."""
    part = path.with_name(PART + path.name)
    with disk_errors(path):
        try:
            _write(part, content)
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
    """Delete what a killed process left unfinished."""
    for part in folder.glob(PART + "*"):
        with disk_errors(part):
            shutil.rmtree(part) if part.is_dir() else part.unlink()


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk; only POSIX systems can and have to."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sealed_json(content: Mapping[str, Any]) -> bytes:
    """JSON that carries the SHA-256 of its own content."""
    return json.dumps({**content, "sha256": _seal(content)}, indent=1, allow_nan=False).encode()


def read_sealed_json(path: Path) -> dict[str, Any]:
    """What `sealed_json` wrote, or a DataError that names the file."""
    try:
        content = json.loads(path.read_bytes())
        seal = content.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged or missing ({error}).") from None
    if _seal(content) != seal:
        raise DataError(f"{path} is damaged: its content does not match its checksum.")
    checked: dict[str, Any] = content
    return checked


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
