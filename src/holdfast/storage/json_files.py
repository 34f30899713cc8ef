"""Small files of a run: written whole or not at all, read with a clear word about what is wrong."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import DataError
from holdfast.storage.checksums import with_checksum, without_checksum
from holdfast.storage.files import read_bounded, write_file

MAX_TEXT_BYTES = 256 << 20
"""A text file of a run larger than this is refused before it is read."""


def write_json_atomic(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` as JSON with a seal, all or nothing; NaN and infinity become null."""
    text = json.dumps(with_checksum(plain(value)), indent=2, ensure_ascii=False, allow_nan=False)
    write_file(path, f"{text}\n".encode())


def write_text_atomic(path: Path, text: str) -> None:
    """Write `text` as UTF-8, all or nothing."""
    write_file(path, text.encode())


def plain(value: Any) -> Any:
    """The same value in JSON's own types: NaN and infinity are None, tuples and arrays are lists, paths are names.

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


def read_text(path: Path) -> str:
    """The text of a file of a run."""
    return decode(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The content of a file of a run; what is far too large is refused before it is read."""
    try:
        return read_bounded(path, MAX_TEXT_BYTES)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; check the folder and its permissions."
        ) from error


def decode(path: Path, content: bytes) -> str:
    """UTF-8 text, or a word about where it is not."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        fix = "restore the file or redo the run"
        raise DataError(f"cannot read {path}: not UTF-8 text at byte {error.start}; {fix}.") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, its seal checked and taken off; without NaN or infinity."""
    try:
        return without_checksum(parse_json(read_text(path)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}; delete it and run `holdfast evaluate` again.") from error


def parse_json(text: str) -> dict[str, Any]:
    """One JSON object; anything else is a ValueError in one sentence."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"expected numbers that a computer can hold, got {text[:20]}")
    return number


def _whole(text: str) -> int:
    _finite(text)  # a float must be able to hold it, or what reads it could not calculate with it
    return int(text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected null for a number that is not available, got {name}")
