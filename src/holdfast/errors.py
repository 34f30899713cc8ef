"""Errors a user can cause, and the one sentence format they share."""

from typing import Any


class HoldfastError(Exception):
    """Anything holdfast refuses on purpose; the command line prints it without a traceback and exits with 2."""


class InputError(HoldfastError, ValueError):
    """An argument, tensor or file that cannot be used as given."""


class DataError(HoldfastError):
    """A dataset that cannot be found, fetched, verified or read."""


def reason(error: Exception) -> str:
    """What another library's error says, on one line and not too long; its name if it says nothing."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"


def expected(what: str, *, got: Any, fix: str = "") -> InputError:
    """Build the error "expected <what>, got <got>; <fix>.".

    >>> str(expected("steps >= 1", got=0, fix="pass a positive number of steps"))
    'expected steps >= 1, got 0; pass a positive number of steps.'
    """
    return InputError(f"expected {what}, got {got}" + (f"; {fix}." if fix else "."))
