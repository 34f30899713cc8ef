"""The command line: finds the command, parses its arguments with tyro, and turns holdfast errors into one sentence.

No logic lives here. A command is one function in `holdfast.commands`, loaded only when it is called.
"""

import difflib
import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import holdfast
from holdfast.engine.process import keep_memory, set_threads
from holdfast.errors import HoldfastError, InputError

COMMANDS = {
    "demo": ("holdfast.commands.demo:demo", "train, attack and compare five networks on embedded data, in minutes"),
    "audit": (
        "holdfast.commands.audit:audit",
        "can I trust its maps? audit any torch classifier on a folder of images",
    ),
    "train": ("holdfast.commands.train:train", "train a network whose explanations hold"),
    "evaluate": (
        "holdfast.commands.evaluate:evaluate",
        "measure a trained run: accuracy, and how far its maps can be moved",
    ),
    "reproduce": ("holdfast.commands.reproduce:reproduce", "make a table of the paper, its value beside ours"),
    "report": ("holdfast.commands.report:report", "turn run directories into one page, tables and figures"),
    "bench": ("holdfast.commands.bench:bench", "measure our speed against the peers"),
    "presets": ("holdfast.commands.presets:list_presets", "list the presets: dataset/method:tier"),
    "presets show": ("holdfast.commands.presets:show_preset", "every setting of one preset"),
    "presets diff": ("holdfast.commands.presets:diff_presets", "what separates two presets"),
    "data list": (
        "holdfast.commands.data:list_datasets",
        "show each dataset, whether it is here and where it comes from",
    ),
    "data get": ("holdfast.commands.data:get_dataset", "fetch one dataset, verify it and keep it"),
}
"""Command -> (where its function lives, what it does in one line)."""

BUG, USER_ERROR, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked, 2 when the user has to change something, 130 when interrupted, 1 for a bug."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        words, threads = _without_threads(words)
        set_threads(threads)
        keep_memory()
        return _run(words)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:  # `holdfast presets | head`: the reader has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for Python's own flush at exit
        return 0
    except Exception as error:
        if debug:
            raise
        return _say(*_told(error))


def _without_threads(words: list[str]) -> tuple[list[str], int | None]:
    """The words without `--threads N`, which every command understands, and N."""
    if "--threads" not in words:
        return words, None
    place = words.index("--threads")
    number = words[place + 1] if place + 1 < len(words) else ""
    if not number.isdecimal():
        raise InputError(f"expected a number after --threads, got {number!r}; try --threads 2.")
    return [*words[:place], *words[place + 2 :]], int(number)


def _told(error: Exception) -> tuple[str, int]:
    """An error in one sentence, and the exit code that belongs to it."""
    if isinstance(error, HoldfastError):
        return str(error), INTERRUPTED if hasattr(error, "signal") else USER_ERROR
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        return (
            f"cannot use{where}: {error.strerror or error}; check the path, its permissions and the disk.",
            USER_ERROR,
        )
    if isinstance(error, MemoryError):
        return "not enough memory; use a smaller batch size, or fewer or smaller images.", USER_ERROR
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{reason}; this is a bug: run the command again with --debug and report what it prints.", BUG


def _say(text: str, code: int) -> int:
    print(f"holdfast: {text}", file=sys.stderr)
    return code


def _run(words: list[str]) -> int:
    if any("\0" in word or not _is_text(word) for word in words):
        raise InputError("expected arguments that are text, got a NUL or bytes that are not UTF-8; check the names.")
    if words and words[0] in ("--version", "-V"):
        print(f"holdfast {holdfast.__version__}")
        return 0
    if not words or words[0] in ("--help", "-h", "help"):
        print(_help(COMMANDS))
        return 0
    name, rest = _find(words)
    if not name:
        print(_help({n: c for n, c in COMMANDS.items() if n.split()[0] == words[0]}))
        return 0
    module, _, function = COMMANDS[name][0].partition(":")
    command: Callable[..., None] = getattr(import_module(module), function)
    import tyro  # here, because the plain help needs no parser

    if getattr(command, "takes_overrides", False):
        from holdfast.config import split_overrides

        rest, overrides = split_overrides(rest)
        command = functools.partial(command, overrides=tuple(overrides))
    tyro.cli(command, prog=f"holdfast {name}", args=rest)
    return 0


def _is_text(word: str) -> bool:
    """Whether it can be printed and written: Python hides bytes that are no text in half characters."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _find(words: list[str]) -> tuple[str, list[str]]:
    """The command that `words` start with and the words behind it; no name for the bare group of several commands."""
    for length in (2, 1):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    members = [name.split()[1] for name in COMMANDS if name.startswith(words[0] + " ")]
    if members and (len(words) == 1 or words[1] in ("--help", "-h")):
        return "", []
    asked = " ".join(words[:2]) if members else words[0]
    known = list(COMMANDS) if members else sorted({name.split()[0] for name in COMMANDS})
    nearest = difflib.get_close_matches(asked, known, n=1, cutoff=0.4)
    hint = f"did you mean 'holdfast {nearest[0]}'? " if nearest else ""
    raise InputError(f"no command '{asked}'; {hint}'holdfast --help' lists them all.")


def _help(commands: dict[str, tuple[str, str]]) -> str:
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}   {summary}" for name, (_, summary) in commands.items()]
    return "\n".join(
        [
            holdfast.__doc__ or "",
            "",
            "usage: holdfast COMMAND [options]",
            "",
            *lines,
            "",
            "holdfast COMMAND --help   what a command takes, with examples",
            "holdfast --version        the version",
            "--threads N               with any command: threads to compute with; all usable cores if not given",
            "--debug                   with any command: show the traceback of an error",
        ]
    )
