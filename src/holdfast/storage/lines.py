"""Files that grow line by line: what was appended is on disk, and a line torn by a crash is dropped, never read."""

import os
from io import FileIO
from pathlib import Path

from holdfast.errors import DataError
from holdfast.storage.json_files import decode, read_bytes

_TAIL = 1 << 16


def append_lines(path: Path, lines: str) -> None:
    """Add complete lines in one write and wait until they are on disk; a torn last line is removed first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        repair(path)
        with path.open("ab", buffering=0) as file:
            _append(file, lines.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; free some space and resume.") from error


def _append(file: FileIO, content: bytes) -> None:
    """All of the content, or none of it if the disk is full."""
    before = os.fstat(file.fileno()).st_size
    try:
        while content:
            content = content[file.write(content) :]
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), before)
        raise


def repair(path: Path) -> int:
    """Cut what follows the last line end, as a crash may leave it; the number of bytes cut."""
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
    """The complete lines of a file, and whether there is a torn rest behind the last line end."""
    content = read_bytes(path)
    end = content.rfind(b"\n") + 1
    return decode(path, content[:end]), end < len(content)
