"""Inputs nobody meant to write: arbitrary bytes, and good files with a few bytes changed; and how many of them."""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError

LONG = bool(os.environ.get("HOLDFAST_LONG"))

COUNTS = {
    "idx": 2_000,
    "image": 1_000,
    "gtsrb table": 1_000,
    "npz": 1_000,
    "config": 1_000,
    "overrides": 1_000,
    "examples": 500,
    "accuracy": 500,
    "log": 500,
    "summary": 500,
    "panels": 500,
    "checkpoint": 500,
    "weights": 500,
    "command line": 2_000,
    "archive": 500,
}
"""Inputs that hypothesis makes in the long form, `make test-long`; `make test` takes a few of each."""

VOLUME = 6_500
"""Mutated files at each of the doors of `test_volume.py`, in the long form."""

SHORT = 30

# How far from the first good or bad answer an input may take: far beyond what any takes, far below a hang.
PATIENCE = timedelta(seconds=20)


def fuzzed(name: str) -> Callable[[Any], Any]:
    """Run a hypothesis test as often as its name says."""

    def decorate(test: Any) -> Any:
        count = COUNTS[name] if LONG else SHORT
        return pytest.mark.fuzz(pytest.mark.timeout(3600)(settings(max_examples=count, deadline=PATIENCE)(test)))

    return decorate


def only_holdfast_errors(call: Callable[[], Any]) -> Any:
    """What the call returns, or the holdfast error it raises, which says something; anything else fails the test."""
    try:
        return call()
    except HoldfastError as error:
        refusal = error
    assert 0 < len(str(refusal)) < 20_000
    return refusal


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A good file with a few bytes replaced, removed or put in, perhaps cut short."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(("flip", "replace", "remove", "insert", "cut")))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "replace":
            new = draw(st.binary(min_size=1, max_size=4))
            data[at : at + len(new)] = new
        elif kind == "remove":
            del data[at : at + draw(st.integers(1, 8))]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        else:
            del data[at:]
    return bytes(data)


def mutated(good: bytes, source: random.Random) -> bytes:
    """The same changes as `damaged` makes, drawn cheaply."""
    data = bytearray(good)
    for _ in range(source.randint(1, 4)):
        at, kind = source.randint(0, len(data)), source.randrange(6)
        if kind <= 1 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            data[at : at + 4] = source.randbytes(source.randint(1, 4))
        elif kind == 3:
            del data[at : at + source.randint(1, 8)]
        elif kind == 4:
            data[at:at] = source.randbytes(source.randint(1, 8))
        elif source.random() < 0.3:
            del data[at:]
    return bytes(data)


def anything(good: bytes) -> st.SearchStrategy[bytes]:
    """Mostly files that are nearly good, since those get further than noise."""
    return st.one_of(damaged(good), damaged(good), st.binary(max_size=200))
