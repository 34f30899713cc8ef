"""The training log `log.jsonl`: one JSON object per line, appended during training."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import DataError
from holdfast.storage.checksums import with_checksum, without_checksum
from holdfast.storage.json_files import parse_json
from holdfast.storage.lines import read_complete


@dataclass(frozen=True, kw_only=True)
class Log:
    """Entries as read, sorted by step, and a note if an incomplete last line was dropped."""

    entries: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


def log_line(entry: Mapping[str, Any]) -> str:
    """One entry as a line of the log, with its checksum."""
    return json.dumps(with_checksum(entry), allow_nan=False) + "\n"


def read_log(path: Path) -> Log:
    """Read all complete entries, none without a file. If a resumed run wrote a step again, the later entry counts."""
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
