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
    """One comparison: our function, the peer's, and how far apart their results may be."""

    name: str
    peer: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    difference: Callable[[Any, Any], float]
    tolerance: float
    target: float
    """How many times faster than the peer we want to be."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Median seconds of both and the median ratio over the rounds, with the range of its middle nine tenths."""

    name: str
    peer: str
    ours: float
    theirs: float
    ratio: float
    interval: tuple[float, float]
    rounds: int
    difference: float
    target: float

    @property
    def reached(self) -> bool:
        """Whether the median ratio meets the target."""
        return self.ratio >= self.target


def time_case(case: Case, *, rounds: int) -> Timing:
    """Run both once to warm up and to compare results, then `rounds` times in turn, who goes first alternating."""
    difference = case.difference(case.ours(), case.theirs())
    if not difference <= case.tolerance:
        raise UnequalError(f"{case.name}: results differ from {case.peer} by {difference:g} > {case.tolerance:g}.")
    pairs = [_one_round(case, ours_first=number % 2 == 0) for number in range(rounds)]
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    cut = round(0.05 * (rounds - 1))
    return Timing(
        name=case.name,
        peer=case.peer,
        ours=median(ours for ours, _ in pairs),
        theirs=median(theirs for _, theirs in pairs),
        ratio=median(ratios),
        interval=(ratios[cut], ratios[-1 - cut]),
        rounds=rounds,
        difference=difference,
        target=case.target,
    )


def _one_round(case: Case, *, ours_first: bool) -> tuple[float, float]:
    if ours_first:
        ours = _seconds(case.ours)
        return ours, _seconds(case.theirs)
    theirs = _seconds(case.theirs)
    return _seconds(case.ours), theirs


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
