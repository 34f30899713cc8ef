"""Checksums inside the small text files of a run, so that a flipped bit is an error and never another result.

A seal is the CRC-32 of what it stands behind: it sees every change of a few neighbouring bits, which is what damaged
disks and cables do. It is no signature: who can write the file can write the seal. Files from before there were seals
are read as they are.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

KEY, MARK, COLUMN = "seal", "crc32:", "crc32"


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with its seal as the last entry.

    >>> with_checksum({"step": 1})
    {'step': 1, 'seal': 'crc32:3a87913d'}
    """
    return {**content, KEY: MARK + _crc(_canonical(content))}


def without_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """The object without its seal; a ValueError if the seal does not fit, the object as it is if it has none."""
    name, value = next(reversed(content.items()), ("", ""))
    # Either of key and mark is enough to expect a seal, so that one flipped bit cannot take the seal off.
    if name != KEY and not (isinstance(value, str) and value.startswith(MARK)):
        return content
    inside = {key: item for key, item in content.items() if key != name}
    if content != with_checksum(inside):
        raise ValueError("the content does not match its checksum, the file is damaged")
    return inside


def line_with_checksum(cells: str, mark: str = "") -> str:
    """A line of CSV with its checksum, after a mark, as one more cell.

    >>> line_with_checksum("1,2")
    '1,2,2b0e6c9b'
    """
    return f"{cells},{mark}{_crc(cells)}"


def line_without_checksum(line: str, mark: str = "") -> str:
    """The cells before the checksum; a ValueError if it does not fit."""
    cells, _, checksum = line.rpartition(",")
    if checksum != mark + _crc(cells):
        raise ValueError("the line does not match its checksum, it is damaged")
    return cells


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
