"""One set of nested values on top of another, and what separates two of them."""

from collections.abc import Iterator, Mapping
from typing import Any

Values = Mapping[str, Any]
CHOOSERS = ("name", "kind")
"""Keys that decide what the other keys of their table mean."""


def merge(base: Values, change: Values) -> dict[str, Any]:
    """`base` with the values of `change`, table by table; None takes a key out.

    A table that names another dataset, network, method or kind of schedule replaces the table, since the settings of
    the one mean nothing to the other.

    >>> merge({"train": {"lr": 1.0, "steps": 5}}, {"train": {"lr": 2.0}})
    {'train': {'lr': 2.0, 'steps': 5}}
    >>> merge({"model": {"name": "a", "options": {"depth": 2}}}, {"model": {"name": "b"}})
    {'model': {'name': 'b'}}
    """
    swapped = any(key in base and key in change and base[key] != change[key] for key in CHOOSERS)
    merged = {} if swapped else dict(base)
    for key, value in change.items():
        if isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = merge(below if isinstance(below, Mapping) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def flat(values: Values, section: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its full name, such as `train.steps`."""
    for key, value in values.items():
        name = f"{section}.{key}" if section else key
        if isinstance(value, Mapping):
            yield from flat(value, name)
        else:
            yield name, value


def differences(a: Values, b: Values) -> dict[str, tuple[Any, Any]]:
    """Full name -> the two values where they differ, None for a key that one of them does not have.

    >>> differences({"train": {"steps": 5, "lr": 1.0}}, {"train": {"steps": 6, "lr": 1.0, "amp": True}})
    {'train.steps': (5, 6), 'train.amp': (None, True)}
    """
    one, two = dict(flat(a)), dict(flat(b))
    return {key: (one.get(key), two.get(key)) for key in {**one, **two} if one.get(key) != two.get(key)}
