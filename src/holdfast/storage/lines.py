"""Append-only text files. Appended lines are flushed to disk; an incomplete last line, left by a crash, is dropped."""

import os
from io import FileIO
from pathlib import Path

from holdfast.errors import DataError
from holdfast.storage.json_files import decode, read_bytes

_TAIL = 1 << 16


def append_lines(path: Path, lines: str) -> None:
    """Append complete lines in one write and flush them to disk; an incomplete last line is removed first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        repair(path)
        with path.open("ab", buffering=0) as file:
            _append(file, lines.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; free some space and resume.") from error


def _append(file: FileIO, content: bytes) -> None:
    """Write all of the content, or none of it if the write fails."""
    before = os.fstat(file.fileno()).st_size
    try:
        while content:
            content = content[file.write(content) :]
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), before)
        raise


def repair(path: Path) -> int:
    """Remove an incomplete last line, as a crash may leave it; return the number of bytes removed."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - _TAIL)
            file.seek(start)
            cut = file.read(end - start).rfind(b"\n")
            if cut >= 0:
                end = start + cut + 1
                break
            end = start
        if end < size:
            file.truncate(end)
        return size - end


def read_complete(path: Path) -> tuple[str, bool]:
    """Return the complete lines of a file, and whether an incomplete last line follows them."""
    content = read_bytes(path)
    end = content.rfind(b"\n") + 1
    return decode(path, content[:end]), end < len(content)
