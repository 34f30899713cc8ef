"""`log.jsonl`: one line of JSON for each record of a run, in the order of its steps."""

import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import DataError
from holdfast.training.files import disk_errors, write_file

Record = dict[str, Any]


def read_log(path: Path) -> list[Record]:
    """All whole records of a log, none if there is no file; a last line that a crash cut short is left out."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    records = []
    for number, line in enumerate(lines, start=1):
        record = _parse(line)
        if record is not None:
            records.append(record)
        elif number < len(lines):
            raise DataError(f"{path} is damaged: line {number} is not a record; delete the line to go on.")
    return records


class Logbook:
    """Appends records to a log; what an earlier run wrote beyond `after` steps is dropped, to be written again."""

    def __init__(self, path: Path, *, after: int = 0) -> None:
        kept = [_line(record) for record in read_log(path) if record["step"] <= after]
        write_file(path, b"".join(kept))
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, record: Record) -> None:
        """Add one line, in one call of the operating system."""
        line = _line(record)
        with disk_errors(self._path):
            if os.write(self._handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Force all lines to disk, before the checkpoint that relies on them."""
        with disk_errors(self._path):
            os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Values as JSON can hold them: what is not a finite number becomes null."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _line(record: Record) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
