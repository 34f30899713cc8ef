"""Types of options as the help shows them: `--size INT` instead of `--size {None}|INT`, and no default of None."""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

NAMES = {int: "INT", float: "FLOAT", str: "STR"}


def with_readable_types(command: Callable[..., Any]) -> None:
    """Name the types of the options of `command` that may be None, and empty defaults; the rest stays as tyro shows it.

    The fields of a parameter that is a dataclass, as `--slurm.memory`, are options, too.
    """
    from tyro.conf import arg

    parameters = inspect.signature(command).parameters
    for name, kind in command.__annotations__.items():
        origin: Any = get_origin(kind)
        fields = get_args(kind)[0] if origin is Annotated else kind
        if isinstance(fields, type) and is_dataclass(fields):
            with_readable_types(fields)
        if (origin is Union or origin is UnionType) and NoneType in get_args(kind):
            shown = "|".join(type_name(part) for part in get_args(kind) if part is not NoneType)
            default = parameters[name].default
            hint = "" if default is None else f"(default: {default})"
            command.__annotations__[name] = Annotated[kind, arg(metavar=shown, help_behavior_hint=hint)]
        elif origin is tuple and parameters[name].default == ():
            command.__annotations__[name] = Annotated[kind, arg(help_behavior_hint="(default: none)")]


def type_name(kind: Any) -> str:
    """The values of a type in the help.

    >>> type_name(int), type_name(tuple[float, ...]), type_name(Literal["rgb", "grey"])
    ('INT', 'FLOAT [FLOAT ...]', '{rgb,grey}')
    """
    if get_origin(kind) is Literal:
        return f"{{{','.join(map(str, get_args(kind)))}}}"
    if get_origin(kind) is tuple:
        one = type_name(get_args(kind)[0])
        return f"{one} [{one} ...]"
    return NAMES.get(kind, getattr(kind, "__name__", str(kind)).upper())
