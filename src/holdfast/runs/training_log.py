"""The training log `log.jsonl`: one JSON object a line, appended while training."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import DataError
from holdfast.storage.json_files import parse_json
from holdfast.storage.lines import read_complete
from holdfast.storage.checksums import with_checksum, without_checksum


@dataclass(frozen=True, kw_only=True)
class Log:
    """Entries as read, in order of steps, and one sentence for each thing that reading dropped."""

    entries: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


def log_line(entry: Mapping[str, Any]) -> str:
    """One entry as a line of the log, with its seal."""
    return json.dumps(with_checksum(entry), allow_nan=False) + "\n"


def read_log(path: Path) -> Log:
    """All complete entries, none if there is no file; where a resumed run wrote a step again, the later one counts."""
    if not path.exists():
        return Log()
    text, torn = read_complete(path)
    entries: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            entry = without_checksum(parse_json(line))
            entries[_step(entry)] = entry
        except (ValueError, RecursionError) as error:
            raise DataError(f"cannot read line {number} of {path}: {error}; delete the line.") from error
    notes = (f"{path.name}: the last line was cut off by an interruption and is left out",) if torn else ()
    return Log(entries=tuple(entries[step] for step in sorted(entries)), notes=notes)


def _step(entry: dict[str, Any]) -> int:
    step, parts = entry.get("step"), entry.get("parts", {})
    if not isinstance(step, int) or not isinstance(parts, dict):
        raise ValueError("expected an integer `step` and an object `parts`")
    return step
