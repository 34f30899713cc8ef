"""The kinds of values a config holds, as strict types: a number may also be written as a fraction, "8/255"."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from holdfast.errors import expected

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


def check_eps(eps: float, name: str = "eps") -> float:
    """A largest change per pixel as it is; raises if it is one of pixels from 0 to 255. `name` is for the message.

    >>> check_eps(0.1)
    0.1
    """
    if eps > 1:
        fix = f"did you mean {eps:g}/255?" if eps <= 255 else "pass a number from 0 to 1"
        raise expected(f"{name} <= 1, since pixels are in [0, 1]", got=f"{eps:g}", fix=fix)
    return eps


def parse_number(name: str, text: str) -> float:
    """A number that is typed, also as a fraction.

    >>> parse_number("eps", "51/255")
    0.2
    """
    try:
        return float(fraction(text))
    except ValueError:
        raise expected(f"{name} as a number or a fraction such as 8/255", got=repr(text)) from None


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


def index_or_key(value: Any) -> Any:
    """Text of digits as the whole number it means; anything else as it is.

    >>> index_or_key("1"), index_or_key("logits")
    (1, 'logits')
    """
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 4 else value


Real = Annotated[float, BeforeValidator(fraction)]
Radius = Annotated[float, BeforeValidator(fraction), Field(ge=0), AfterValidator(lambda eps: check_eps(eps))]
"""The largest change per pixel; pixels are in [0, 1]."""
Setting = Annotated[Any, BeforeValidator(_setting)]
Reals = Annotated[tuple[Real, ...], Strict(False)]  # a list, which is all that TOML has, will do
Wholes = Annotated[tuple[int, ...], Strict(False)]
Texts = Annotated[tuple[str, ...], Strict(False)]
Sides = Annotated[tuple[int, int], Strict(False)]
PerChannel = Annotated[tuple[Real, ...], Strict(False), BeforeValidator(_listed)]
"""One number for all channels, or one for each."""
IndexOrKey = Annotated[int | str, BeforeValidator(index_or_key)]
