"""Configs as TOML: read with the standard library, written so that reading gives the same values bit for bit."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import DataError
from holdfast.storage.files import read_bounded

_MAX_BYTES = 1 << 20
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(read_bounded(path, _MAX_BYTES).decode())
    except OSError as error:
        raise DataError(f"cannot read the config {path}: {error.strerror or error}; check the path.") from error
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of a number with too many digits
        raise DataError(f"cannot read the config {path}: {error}; correct the file.") from error


def to_toml(values: Mapping[str, Any], table: str = "") -> str:
    """Nested values as TOML text: the plain keys of a table first, then its tables.

    >>> print(to_toml({"seed": 1, "train": {"lr": 1e-4, "amp": False}}), end="")
    seed = 1
    <BLANKLINE>
    [train]
    lr = 0.0001
    amp = false
    """
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    head = [f"[{table}]"] if table and (lines or not values) else []
    block = "".join(f"{line}\n" for line in head + lines)
    inner = [
        to_toml(value, f"{table}.{_key(key)}" if table else _key(key))
        for key, value in values.items()
        if isinstance(value, Mapping)
    ]
    return "\n".join(part for part in (block, *inner) if part)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)  # of int and float, Python's shortest exact form is TOML


def _text(text: str) -> str:
    # JSON escapes what TOML has to, except DEL
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
