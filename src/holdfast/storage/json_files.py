"""Small JSON and text files of a run: atomic writes, and readers with clear error messages."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import DataError
from holdfast.storage.checksums import with_checksum, without_checksum
from holdfast.storage.files import read_bounded, write_file

MAX_TEXT_BYTES = 256 << 20
"""A text file of a run larger than this is rejected before it is read."""


def write_json_atomic(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` as JSON with a checksum, atomically; NaN and infinity become null."""
    text = json.dumps(with_checksum(plain(value)), indent=2, ensure_ascii=False, allow_nan=False)
    write_file(path, f"{text}\n".encode())


def write_text_atomic(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    write_file(path, text.encode())


def plain(value: Any) -> Any:
    """Convert a value to JSON types: NaN and infinity to None, tuples and arrays to lists, paths to their names.

    >>> plain({"median": float("nan"), "ci95": (0.25, 0.5)})
    {'median': None, 'ci95': [0.25, 0.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.name if isinstance(value, Path) else value


def words_of(settings: Any) -> str:
    """Settings as text: frozen dataclasses have a complete repr. Memory addresses are removed, since they vary."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(settings))


def read_text(path: Path) -> str:
    """Read a text file of a run."""
    return decode(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Read a file of a run; files larger than `MAX_TEXT_BYTES` are rejected before they are read."""
    try:
        return read_bounded(path, MAX_TEXT_BYTES)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; check the folder and its permissions."
        ) from error


def decode(path: Path, content: bytes) -> str:
    """Decode UTF-8; raise a DataError that names the file and the first invalid byte."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        fix = "restore the file or repeat the run"
        raise DataError(f"cannot read {path}: not UTF-8 text at byte {error.start}; {fix}.") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object and verify and remove its checksum; NaN and infinity are rejected."""
    try:
        return without_checksum(parse_json(read_text(path)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}; delete it and run `holdfast evaluate` again.") from error


def parse_json(text: str) -> dict[str, Any]:
    """Parse one JSON object; raise a ValueError with a one-sentence message for anything else."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"expected numbers in the range of a 64-bit float, got {text[:20]}")
    return number


def _whole(text: str) -> int:
    _finite(text)  # reject integers beyond the range of a float, with which readers could not calculate
    return int(text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected null for a missing number, got {name}")
