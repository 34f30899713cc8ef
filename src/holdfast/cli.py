"""The command line: finds the command, parses its arguments with tyro, and prints errors as one sentence.

Each command is one function in `holdfast.commands`, which is imported only when it is called.
"""

import difflib
import functools
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import holdfast
from holdfast.commands.flags import as_flags, as_typed
from holdfast.commands.processes import leads, program
from holdfast.commands.readable import with_readable_types
from holdfast.engine.process import keep_memory, set_threads
from holdfast.errors import HoldfastError, InputError

COMMANDS = {
    "demo": ("holdfast.commands.demo:demo", "attack the maps of two trained networks, then train and compare five"),
    "audit": (
        "holdfast.commands.audit:audit",
        "measure how far small perturbations change the maps of your own classifier",
    ),
    "harden": (
        "holdfast.commands.harden:harden",
        "fine-tune your own classifier so that its maps hold, and compare it before and after",
    ),
    "train": ("holdfast.commands.train:train", "train a network for robust explanations"),
    "evaluate": (
        "holdfast.commands.evaluate:evaluate",
        "evaluate a trained run: accuracy and robustness of its maps",
    ),
    "reproduce": ("holdfast.commands.reproduce:reproduce", "reproduce a table of the paper"),
    "report": ("holdfast.commands.report:report", "write an HTML report, tables and figures from run directories"),
    "bench": ("holdfast.commands.bench:bench", "benchmark holdfast against other libraries"),
    "presets": ("holdfast.commands.presets:list_presets", "list the presets (dataset/method:tier)"),
    "presets show": ("holdfast.commands.presets:show_preset", "print all settings of one preset"),
    "presets diff": ("holdfast.commands.presets:diff_presets", "compare the settings of two presets"),
    "zoo list": ("holdfast.commands.zoo:list_networks", "list the trained networks that can be loaded by name"),
    "zoo card": ("holdfast.commands.zoo:show_card", "print the model card of a network"),
    "zoo get": ("holdfast.commands.zoo:get_network", "get the weights of a network and verify them"),
    "data list": (
        "holdfast.commands.data:list_datasets",
        "list the datasets, whether they are on this machine, and their sources",
    ),
    "data get": ("holdfast.commands.data:get_dataset", "get one dataset, verify it and store it in the cache"),
}
"""Command -> (location of its function, one-line description)."""

BUG, USER_ERROR, INTERRUPTED = 1, 2, 130

_RESUMES = (["evaluate"], ["reproduce"])
"""Commands that go on where they stopped if they are run again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 for success, 2 for a user error, 130 if interrupted, 1 for a bug."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        words, threads = _without_threads(words)
        set_threads(threads)
        keep_memory()
        return _run(words)
    except KeyboardInterrupt:
        return _say(_interrupted(words), INTERRUPTED)
    except BrokenPipeError:  # the reader closed the pipe, as in `holdfast presets | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - Python flushes stdout at exit
        return 0
    except Exception as error:
        if debug:
            raise
        return _say(*_told(error, words))


def _without_threads(words: list[str]) -> tuple[list[str], int | None]:
    """Remove `--threads N`, which every command accepts, from the arguments; return the rest and N."""
    if "--threads" not in words:
        return words, None
    place = words.index("--threads")
    number = words[place + 1] if place + 1 < len(words) else ""
    if not number.isdecimal():
        raise InputError(f"expected a number after --threads, got {number!r}; try --threads 2.")
    return [*words[:place], *words[place + 2 :]], int(number)


def _interrupted(words: list[str]) -> str:
    """What to say after Ctrl-C: the command that goes on, or starts again; only one process of several says it."""
    if not leads():
        return "interrupted"
    again = "go on with" if words[:1] in _RESUMES else "start again with"
    return f"interrupted; {again}: {program()} {shlex.join(words)}"


def _told(error: Exception, words: list[str]) -> tuple[str, int]:
    """The message for an error of a command, in one sentence, and its exit code."""
    if isinstance(error, HoldfastError):
        message = as_typed(as_flags(str(error), words[0] if words else ""), words)
        return message, INTERRUPTED if hasattr(error, "signal") else USER_ERROR
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        return (
            f"cannot access{where}: {error.strerror or error}; check the path, its permissions and the disk.",
            USER_ERROR,
        )
    if isinstance(error, MemoryError):
        return "not enough memory; use a smaller batch size, or fewer or smaller images.", USER_ERROR
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{reason}; this is a bug: run the command again with --debug and report the output.", BUG


def _say(text: str, code: int) -> int:
    rank, size = (os.environ.get(name, default) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    who = "holdfast" if size == "1" else f"holdfast (process {rank} of {size})"
    print(f"{who}: {text}", file=sys.stderr)
    return code


def _run(words: list[str]) -> int:
    if any("\0" in word or not _is_text(word) for word in words):
        raise InputError("expected arguments in UTF-8 without NUL bytes, got others; check the file names.")
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
    import tyro  # imported here, because `holdfast --help` does not need it

    if getattr(command, "takes_overrides", False):
        from holdfast.config import split_overrides

        rest, overrides = split_overrides(rest)
        command = functools.partial(command, overrides=tuple(overrides))
    with_readable_types(getattr(command, "func", command))
    tyro.cli(command, prog=f"holdfast {name}", args=rest)
    return 0


def _is_text(word: str) -> bool:
    """Whether the argument is valid text; Python decodes invalid UTF-8 bytes to lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _find(words: list[str]) -> tuple[str, list[str]]:
    """Split `words` into the command name and its arguments; the name is empty for a bare group such as `data`."""
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
    raise InputError(f"no command '{asked}'; {hint}'holdfast --help' lists all commands.")


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
            "holdfast COMMAND --help   options and examples of a command",
            "holdfast --version        print the version",
            "--threads N               with any command: number of CPU threads (default: all usable cores)",
            "--debug                   with any command: print the traceback of an error",
        ]
    )
