"""The kinds of values a config holds, as strict types: a number may also be written as a fraction, "8/255"."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Strict

_FRACTION = re.compile(r"\d+(\.\d+)?/\d+(\.\d+)?")


def fraction(value: Any) -> Any:
    """Text such as "8/255" as the number it means; anything else as it is.

    >>> fraction("51/255"), fraction("mnist"), fraction(3)
    (0.2, 'mnist', 3)
    """
    if not isinstance(value, str) or not _FRACTION.fullmatch(value):
        return value
    above, below = (float(part) for part in value.split("/"))
    return above / below if below else value


def _setting(value: Any) -> Any:
    """A plain value: true or false, number, text, or a list of them."""
    if isinstance(value, list | tuple):
        return [_setting(item) for item in value]
    if not isinstance(value, bool | int | float | str):
        raise ValueError("a number, text, true or false, or a list of them")
    return fraction(value)


def _listed(value: Any) -> Any:
    """One number as a list of one."""
    number = isinstance(value, int | float | str) and not isinstance(value, bool)
    return (value,) if number else value


Real = Annotated[float, BeforeValidator(fraction)]
Setting = Annotated[Any, BeforeValidator(_setting)]
Reals = Annotated[tuple[Real, ...], Strict(False)]  # a list, which is all that TOML has, will do
Wholes = Annotated[tuple[int, ...], Strict(False)]
Texts = Annotated[tuple[str, ...], Strict(False)]
Sides = Annotated[tuple[int, int], Strict(False)]
PerChannel = Annotated[tuple[Real, ...], Strict(False), BeforeValidator(_listed)]
"""One number for all channels, or one for each."""
