"""The page of the commands, from `holdfast.cli.COMMANDS` and the docstrings of their functions."""

import inspect
import re
from importlib import import_module
from typing import Any

from docstrings import markdown

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
    rows = [_row(parameters[name], " ".join(meaning.split())) for name, meaning in found]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows]) if rows else ""


def _row(parameter: inspect.Parameter, meaning: str) -> str:
    by_place = parameter.kind is parameter.POSITIONAL_ONLY
    option = parameter.name.upper() if by_place else f"--{parameter.name.replace('_', '-')}"
    default = "" if parameter.default in (parameter.empty, None, "", ()) else f"`{_plain(parameter.default)}`"
    return f"| `{option}` | {default} | {markdown(meaning)} |"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
