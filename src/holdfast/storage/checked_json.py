"""JSON files that contain the SHA-256 of their own content, such as the state file of a checkpoint."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import DataError
from holdfast.storage.files import read_bounded

_MAX_BYTES = 64 << 20


def sealed_json(content: Mapping[str, Any]) -> bytes:
    """Serialise the content together with its SHA-256 checksum."""
    return json.dumps({**content, "sha256": _seal(content)}, indent=1, allow_nan=False).encode()


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read a file written by `sealed_json`; raise a DataError that names the file if it is missing or damaged."""
    try:
        content = json.loads(read_bounded(path, _MAX_BYTES))
        seal = content.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged or missing ({error}).") from None
    if _seal(content) != seal:
        raise DataError(f"{path} is damaged: its content does not match its checksum.")
    checked: dict[str, Any] = content
    return checked


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
