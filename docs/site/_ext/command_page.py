"""The page of the commands, from `holdfast.cli.COMMANDS` and the docstrings of their functions."""

import ast
import inspect
import re
import textwrap
from dataclasses import is_dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, get_args

from docstrings import markdown
from tyro.conf import OmitArgPrefixes

from holdfast.cli import COMMANDS


def page() -> str:
    """The page as Markdown: for each command its text, its examples and its options."""
    parts = [_command(name, place) for name, (place, _) in COMMANDS.items()]
    intro = (
        "`holdfast COMMAND --help` prints the same. Every command also takes `--threads N` (CPU threads, by default "
        "all usable cores) and `--debug` (the traceback of an error).\n\n"
        "Exit codes: 0 success, 2 an error that the user can fix, 130 interrupted, 1 a bug."
    )
    return "\n\n".join(["# Commands", intro, *parts]) + "\n"


def _command(name: str, place: str) -> str:
    module, _, function = place.partition(":")
    call = getattr(import_module(module), function)
    text, _, arguments = (inspect.getdoc(call) or "").partition("\nArgs:\n")
    text, _, examples = text.partition("\nUsage examples:\n")
    shown = f"```text\n{inspect.cleandoc(examples)}\n```" if examples else ""
    return "\n\n".join(
        part for part in (f"## holdfast {name}", markdown(text.strip()), shown, _options(call, arguments)) if part
    )


def _options(call: Any, arguments: str) -> str:
    """A table of the options: name, default, meaning."""
    parameters = inspect.signature(call).parameters
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, flags=re.MULTILINE)
    rows = [row for name, meaning in found for row in _rows(parameters[name], " ".join(meaning.split()))]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows]) if rows else ""


def _rows(parameter: inspect.Parameter, meaning: str) -> list[str]:
    """One row, or one per field for a parameter that is a dataclass, such as `--slurm.gpus`."""
    kind, *marks = get_args(parameter.annotation) or (parameter.annotation,)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return [_row(parameter, meaning)]
    prefix = "" if OmitArgPrefixes in marks else f"{parameter.name}."
    texts = _field_texts(kind)
    return [_row(field, texts[name], prefix) for name, field in inspect.signature(kind).parameters.items()]


def _field_texts(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _row(parameter: inspect.Parameter, meaning: str, prefix: str = "") -> str:
    by_place = parameter.kind is parameter.POSITIONAL_ONLY
    option = parameter.name.upper() if by_place else f"--{prefix}{parameter.name.replace('_', '-')}"
    default = "" if parameter.default in (parameter.empty, None, "", ()) else f"`{_plain(parameter.default)}`"
    return f"| `{option}` | {default} | {markdown(meaning)} |"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
