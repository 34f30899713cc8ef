"""Errors that users can trigger, and the message format they share."""

from typing import Any


class HoldfastError(Exception):
    """Base class of holdfast's errors; the command line prints them without a traceback and exits with code 2."""


class InputError(HoldfastError, ValueError):
    """An argument, tensor or file that cannot be used as given."""


class DataError(HoldfastError):
    """A dataset or file that cannot be found, fetched, verified, read or written."""


def reason(error: Exception) -> str:
    """The message of another library's error, on one line, at most 300 characters; its class name if it is empty."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"


def expected(what: str, *, got: Any, fix: str = "") -> InputError:
    """Build the error "expected <what>, got <got>; <fix>.".

    >>> str(expected("steps >= 1", got=0, fix="pass a positive number of steps"))
    'expected steps >= 1, got 0; pass a positive number of steps.'
    """
    end = "" if fix.endswith("?") else "."
    return InputError(f"expected {what}, got {got}" + (f"; {fix}{end}" if fix else "."))
