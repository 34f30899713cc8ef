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
class Meter:
    """Passes counted since it was switched on."""

    passes: int = 0


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """Count the example-passes of everything inside.

    >>> with metered() as meter:
    ...     spend(8, 2)
    >>> meter.passes
    16
    """
    meter = Meter()
    token = _METERS.set((*_METERS.get(), meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


def spend(examples: int, passes_each: int) -> None:
    """Report that `examples` went through the network `passes_each` times."""
    for meter in _METERS.get():
        meter.passes += examples * passes_each
