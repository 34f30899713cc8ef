"""A network from elsewhere with what its source knows about its input and its classes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from holdfast.data.preprocessing import Preprocessing
from holdfast.errors import InputError, expected, reason


@dataclass(frozen=True, kw_only=True)
class Built:
    """A network, and if its source records them, its preprocessing and the names of its classes in order."""

    net: nn.Module
    preprocessing: Preprocessing | None = None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def called(name: str, make: Callable[..., Any], options: dict[str, Any], seed: int) -> Any:
    """Call a builder, its random weights drawn with the seed.

    Whatever it raises becomes one sentence with the type and the text of the exception.
    """
    try:
        with seeded(seed):
            return make(**options)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        fix = "pass its arguments as key=value" if isinstance(error, TypeError) else "call it in Python to see where"
        raise failed(f"{name}({given})", error, fix) from error


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from PyTorch's generator of the CPU with a seed, inside the block; it is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def failed(what: str, error: BaseException, fix: str) -> InputError:
    """The error for code of the user's that raised another one."""
    return expected(f"{what} to return a network", got=f"{type(error).__name__}: {reason_of(error)}", fix=fix)


def reason_of(error: BaseException) -> str:
    """The text of an exception, or a plain word if it has none."""
    return reason(error) if str(error).strip() and isinstance(error, Exception) else "no message"
