"""`log.jsonl` while it is written: one line of JSON for each record of a run, in the order of its steps."""

import errno
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.runs import training_log
from holdfast.runs.training_log import log_line
from holdfast.storage.files import disk_errors, write_file

Record = dict[str, Any]


def read_log(path: Path) -> list[Record]:
    """All whole records of a log, none if there is no file; a last line that a crash cut short is left out."""
    return list(training_log.read_log(path).entries)


class Logbook:
    """Appends records to a log; what an earlier run wrote beyond `after` steps is dropped, to be written again."""

    def __init__(self, path: Path, *, after: int = 0) -> None:
        kept = [log_line(record) for record in read_log(path) if record["step"] <= after]
        write_file(path, "".join(kept).encode())
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, record: Record) -> None:
        """Add one line, in one call of the operating system."""
        line = log_line(record).encode()
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
