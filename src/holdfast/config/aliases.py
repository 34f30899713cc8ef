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


def current_method(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a config, with the method `erar_plus` of version 0.1 under its current name `erar_plus_v1`.

    >>> current_method({"method": {"name": "erar_plus", "settings": {"attack_weight": 3.0}}})["method"]["name"]
    'erar_plus_v1'
    """
    method = values.get("method")
    if not isinstance(method, Mapping) or method.get("name") != "erar_plus":
        return dict(values)
    settings = method.get("settings")
    first_version = isinstance(settings, Mapping) and "attack_weight" in settings
    return {**values, "method": {**method, "name": "erar_plus_v1"}} if first_version else dict(values)


def current_key(key: str) -> str:
    """The current name of one full key.

    >>> current_key("method.settings.quiet"), current_key("train.steps")
    ('method.settings.dead_zone', 'train.steps')
    """
    return f"{key.rpartition('.')[0]}.{RENAMED[key]}" if key in RENAMED else key
