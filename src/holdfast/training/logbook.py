"""Writer of `log.jsonl`: one JSON line per record of a run, in order of the steps."""

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
    """All complete records of a log, none if there is no file; an incomplete last line, left by a crash, is dropped."""
    return list(training_log.read_log(path).entries)


class Logbook:
    """Appends records to a log. Earlier records beyond step `after` are dropped, since the run writes them again."""

    def __init__(self, path: Path, *, after: int = 0) -> None:
        kept = [log_line(record) for record in read_log(path) if record["step"] <= after]
        write_file(path, "".join(kept).encode())
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, record: Record) -> None:
        """Append one line, in a single system call."""
        line = log_line(record).encode()
        with disk_errors(self._path):
            if os.write(self._handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Flush all lines to disk, before the checkpoint that relies on them."""
        with disk_errors(self._path):
            os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Values that JSON can represent: non-finite numbers become null."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
