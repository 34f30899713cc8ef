"""What is wrong with a config, said the way all errors are: what was expected, what came, which key comes nearest."""

import difflib
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.errors import InputError, expected

_WORDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
}


S = TypeVar("S", bound=BaseModel)


def nearest(name: str, valid: Iterable[str]) -> str:
    """The valid name that looks most like `name`, the empty string if there is none at all.

    >>> nearest("stpes", ["steps", "lr"])
    'steps'
    """
    return next(iter(difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)), "")


def validated(schema: type[S], values: Mapping[str, Any], section: str = "") -> S:
    """`values` as a `schema`, or an InputError that names every bad key with its section."""
    try:
        return schema.model_validate(dict(values))
    except ValidationError as error:
        found = [_sentence(schema, problem, section) for problem in error.errors()]
        raise InputError(found[0] if len(found) == 1 else "\n  ".join(["the config has problems:", *found])) from None


def keys(schema: type[BaseModel], section: str = "") -> dict[str, Any]:
    """Every key of a schema with its full name and its type, tables included."""
    found: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        found[_join(section, name)] = field.annotation
        inner = table(field.annotation)
        found |= keys(inner, _join(section, name)) if inner else {}
    return found


def table(annotation: Any) -> type[BaseModel] | None:
    """The schema behind a type that is a table or None."""
    return next((c for c in choices(annotation) if isinstance(c, type) and issubclass(c, BaseModel)), None)


def choices(annotation: Any) -> tuple[Any, ...]:
    """The types that a type admits, without what `Annotated` adds.

    >>> choices(Annotated[int, "whole"] | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    if get_origin(annotation) in (Union, UnionType):
        return tuple(choice for member in get_args(annotation) for choice in choices(member))
    return choices(get_args(annotation)[0]) if get_origin(annotation) is Annotated else (annotation,)


def _sentence(schema: type[BaseModel], problem: ErrorDetails, section: str) -> str:
    place = [str(part) for part in problem["loc"]]
    key = _join(section, *place)
    if problem["type"] == "extra_forbidden":
        return str(_unknown(schema, place, section))
    if problem["type"] == "missing":
        return str(
            expected(f"a value for {key}", got="none", fix=f"add it to [{_join(section, *place[:-1]) or 'top'}]")
        )
    if problem["type"] == "value_error":
        reason = problem["ctx"]["error"]
        if isinstance(reason, InputError):  # from a check of whole tables: a sentence already
            return _with_key(key, str(reason))
        return str(expected(f"{key} to be {reason}", got=_shown(problem["input"])))
    wanted = _WORDS.get(problem["type"], problem["msg"].removeprefix("Input should be "))
    return str(expected(f"{key} to be {wanted}", got=_shown(problem["input"])))


def _with_key(key: str, sentence: str) -> str:
    """The sentence with the full name of the key: in place of its last part, or in front if neither is named.

    >>> _with_key("evaluate.pgd.eps", "expected eps <= 1, got 8.")
    'expected evaluate.pgd.eps <= 1, got 8.'
    >>> _with_key("train", "expected steps or epochs, got none.")
    'train: expected steps or epochs, got none.'
    """
    last = f"expected {key.rpartition('.')[2]} "
    if not key or sentence.startswith(f"expected {key}."):
        return sentence
    return sentence.replace(last, f"expected {key} ", 1) if sentence.startswith(last) else f"{key}: {sentence}"


def _unknown(schema: type[BaseModel], place: list[str], section: str) -> InputError:
    """The error for a key that does not exist: the keys of its table, and the nearest of all keys."""
    inside: type[BaseModel] = schema
    for part in place[:-1]:
        inside = table(inside.model_fields[part].annotation) or inside
    here, name, siblings = _join(section, *place[:-1]), place[-1], list(inside.model_fields)
    where = f"a key of [{here}]" if here else "a top-level key"
    fix = f"the nearest is {_nearest_key(schema, inside, here, name, section)}" if siblings else "leave it out"
    return expected(f"{where} ({', '.join(siblings) or 'it has none'})", got=repr(name), fix=fix)


def _nearest_key(schema: type[BaseModel], inside: type[BaseModel], here: str, name: str, section: str) -> str:
    """A neighbour with nearly that name, else the same name in an open table or another section, else a neighbour."""
    siblings = list(inside.model_fields)
    close = difflib.get_close_matches(name, siblings, n=1, cutoff=0.6)
    open_tables = [key for key, field in inside.model_fields.items() if get_origin(field.annotation) is dict]
    elsewhere = [key for key in keys(schema, section) if key.split(".")[-1] == name]
    if close or not (open_tables or elsewhere):
        return _join(here, close[0] if close else nearest(name, siblings))
    return _join(here, open_tables[0], name) if open_tables else elsewhere[0]


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) < 60 else text[:57] + '...'} ({type(value).__name__})"


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)
