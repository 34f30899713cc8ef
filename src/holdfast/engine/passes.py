"""Example-passes: the cost of a computation that does not depend on the machine.

One pass is one example going forward or backward through the network once. A gradient that is differentiated again
costs four: forward, backward, and the backward of both. The places that call a network report here; nobody else has
to know.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class PassCounter:
    """Passes counted since it was switched on."""

    passes: int = 0


_COUNTERS: ContextVar[tuple[PassCounter, ...]] = ContextVar("counters", default=())


@contextmanager
def count_passes() -> Iterator[PassCounter]:
    """Count the example-passes of everything inside.

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
    """Report that `examples` went through the network `passes_each` times."""
    for counter in _COUNTERS.get():
        counter.passes += examples * passes_each
