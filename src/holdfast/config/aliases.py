"""Keys that had another name: configs written under the old one stay readable, and old overrides work."""

from collections.abc import Mapping
from typing import Any

RENAMED = {
    "evaluate.ifia.search_points": "search_ig_steps",
    "evaluate.ensemble.search_points": "search_ig_steps",
    "method.settings.quiet": "dead_zone",
    "method.settings.narrow": "filter_spread",
}
"""Full old name -> the last part of the new one."""


def current_names(values: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """Nested values with every key under its current name.

    >>> current_names({"evaluate": {"ifia": {"search_points": 10}}})
    {'evaluate': {'ifia': {'search_ig_steps': 10}}}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        full = f"{section}.{key}" if section else key
        found[RENAMED.get(full, key)] = current_names(value, full) if isinstance(value, Mapping) else value
    return found


def current_key(key: str) -> str:
    """The current name of one full key.

    >>> current_key("method.settings.quiet"), current_key("train.steps")
    ('method.settings.dead_zone', 'train.steps')
    """
    return f"{key.rpartition('.')[0]}.{RENAMED[key]}" if key in RENAMED else key
