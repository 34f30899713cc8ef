"""What a checkpoint may hold besides tensors and plain containers, read by stand-ins that build plain values only.

PyTorch's reader calls the stand-in where the file names the original, so a crafted file reaches no code of NumPy's
pickling, whose descriptions of types can point anywhere in memory.
"""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Stand = Callable[..., Any] | tuple[Callable[..., Any], str]
"""A class, or a stand-in and the name that it stands for."""


@dataclass
class NumberType:
    """A type of numbers, in place of `numpy.dtype`: "f8" is a float of 8 bytes.

    >>> scalar(NumberType("f8"), np.float64(0.5).tobytes())
    0.5
    """

    code: str
    align: bool = False
    copy: bool = True
    order: str = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the byte order from what NumPy stores, and nothing else."""
        self.order = state[1] if state[1] in ("<", ">") else "="

    def to_numpy(self) -> np.dtype[Any]:
        """The type of NumPy; a ValueError for anything but truth values and numbers."""
        if not re.fullmatch(r"b1|[iu][1248]|f[248]|c(8|16)", self.code):
            raise ValueError(f"a NumPy type {self.code!r}, not a number")
        return np.dtype(self.order + self.code)


def scalar(kind: NumberType, content: bytes) -> bool | int | float | complex:
    """A number, in place of `numpy.core.multiarray.scalar`."""
    value: bool | int | float | complex = np.frombuffer(content, kind.to_numpy(), count=1)[0].item()
    return value


def plain_dict(_: Any = None) -> dict[Any, Any]:
    """A dict, in place of `collections.defaultdict`, whose default is not needed."""
    return {}


_FACTORIES = (list, dict, int, float, str, tuple, bool)
"""What a defaultdict makes its defaults with."""

PLAIN_GLOBALS: list[Stand] = [
    argparse.Namespace,
    (NumberType, "numpy.dtype"),
    (scalar, "numpy.core.multiarray.scalar"),
    (scalar, "numpy._core.multiarray.scalar"),
    (plain_dict, "collections.defaultdict"),
    *((plain_dict, f"builtins.{kind.__name__}") for kind in _FACTORIES),
]
"""For `torch.serialization.safe_globals`."""
