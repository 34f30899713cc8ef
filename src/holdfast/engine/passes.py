"""Example-passes: a machine-independent measure of computational cost.

One pass is one example going forward or backward through the network once. A gradient that is differentiated again
costs four passes: forward, backward, and the backward of both. Functions that call a network report their passes with
`add_passes`; other code does not have to count.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class PassCounter:
    """Number of passes since counting started. `watch` is called before further passes are added."""

    passes: int = 0
    watch: Callable[[], None] | None = None


_COUNTERS: ContextVar[tuple[PassCounter, ...]] = ContextVar("counters", default=())


@contextmanager
def count_passes() -> Iterator[PassCounter]:
    """Count the example-passes inside the block.

    >>> with count_passes() as counter:
    ...     add_passes(8, 2)
    >>> counter.passes
    16
    """
    counter = PassCounter()
    token = _COUNTERS.set((*_COUNTERS.get(), counter))
    try:
        yield counter
    finally:
        _COUNTERS.reset(token)


def add_passes(examples: int, passes_each: int) -> None:
    """Report that `examples` examples passed through the network `passes_each` times each."""
    for counter in _COUNTERS.get():
        if counter.watch is not None:
            counter.watch()
        counter.passes += examples * passes_each
