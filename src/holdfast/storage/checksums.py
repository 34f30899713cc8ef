"""Checksums inside the small text files of a run, so that a flipped bit raises an error and never changes a result.

The checksum is the CRC-32 of the content. It detects every change of a few neighbouring bits, the typical damage caused
by disks and cables. It is not a signature: anyone who can write the file can also write a matching checksum. Files
written before checksums were introduced are read without a check.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

KEY, MARK, COLUMN = "seal", "crc32:", "crc32"


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Add the checksum to a JSON object, as its last entry `seal`.

    >>> with_checksum({"step": 1})
    {'step': 1, 'seal': 'crc32:3a87913d'}
    """
    return {**content, KEY: MARK + _crc(_canonical(content))}


def without_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """Remove the checksum; raise a ValueError if it does not match. An object without one is returned unchanged."""
    name, value = next(reversed(content.items()), ("", ""))
    # Either the key or the mark is enough to expect a checksum, so one flipped bit cannot disable the check.
    if name != KEY and not (isinstance(value, str) and value.startswith(MARK)):
        return content
    inside = {key: item for key, item in content.items() if key != name}
    if content != with_checksum(inside):
        raise ValueError("the content does not match its checksum, so the file is damaged")
    return inside


def line_with_checksum(cells: str, mark: str = "") -> str:
    """Append the checksum, preceded by `mark`, to a line of CSV as one more cell.

    >>> line_with_checksum("1,2")
    '1,2,2b0e6c9b'
    """
    return f"{cells},{mark}{_crc(cells)}"


def line_without_checksum(line: str, mark: str = "") -> str:
    """Return the cells before the checksum; raise a ValueError if it does not match."""
    cells, _, checksum = line.rpartition(",")
    if checksum != mark + _crc(cells):
        raise ValueError("the line does not match its checksum, so it is damaged")
    return cells


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
