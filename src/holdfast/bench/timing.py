"""Timing two ways of doing the same thing so that a noisy machine cannot decide: interleaved rounds, one ratio each."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from holdfast.errors import HoldfastError


class UnequalError(HoldfastError):
    """Two implementations that should agree do not, so their times must not be compared."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison: our function, the other, and how far apart their results may be."""

    name: str
    peer: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    target: float
    """How many times faster than the peer we want to be."""
    difference: Callable[[Any, Any], float] | None = None
    """None for two different jobs, of which only the cost is compared."""
    tolerance: float = 0.0
    rounds: int | None = None
    """Fewer rounds for long work; None leaves it to the caller."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Median seconds of both and the median ratio over the rounds, with the range of its middle nine tenths."""

    name: str
    peer: str
    ours: float
    theirs: float
    ours_range: tuple[float, float]
    ratio: float
    interval: tuple[float, float]
    rounds: int
    difference: float | None
    target: float

    @property
    def reached(self) -> bool:
        """Whether the median ratio meets the target."""
        return self.ratio >= self.target


def time_case(case: Case, *, rounds: int) -> Timing:
    """Run both once to warm up and to compare results, then `rounds` times in turn, who goes first alternating."""
    rounds = min(rounds, case.rounds or rounds)
    difference = None
    if case.difference is not None:
        difference = case.difference(case.ours(), case.theirs())
        if not difference <= case.tolerance:
            raise UnequalError(f"{case.name}: results differ from {case.peer} by {difference:g} > {case.tolerance:g}.")
    pairs = [_one_round(case, ours_first=number % 2 == 0) for number in range(rounds)]
    return Timing(
        name=case.name,
        peer=case.peer,
        ours=median(ours for ours, _ in pairs),
        theirs=median(theirs for _, theirs in pairs),
        ours_range=_middle([ours for ours, _ in pairs]),
        ratio=median(theirs / ours for ours, theirs in pairs),
        interval=_middle([theirs / ours for ours, theirs in pairs]),
        rounds=rounds,
        difference=difference,
        target=case.target,
    )


def seconds(work: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _one_round(case: Case, *, ours_first: bool) -> tuple[float, float]:
    if ours_first:
        ours = seconds(case.ours)
        return ours, seconds(case.theirs)
    theirs = seconds(case.theirs)
    return seconds(case.ours), theirs


def _middle(values: list[float]) -> tuple[float, float]:
    """The range of the middle nine tenths."""
    ordered = sorted(values)
    cut = round(0.05 * (len(ordered) - 1))
    return ordered[cut], ordered[-1 - cut]
