"""Timing of two implementations in interleaved rounds, with one ratio per round to cancel changes in machine speed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from holdfast.errors import HoldfastError


class UnequalError(HoldfastError):
    """Raised when two implementations that should agree give different results, so their times are not comparable."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison: our function, the peer's function, and the tolerance for the difference of their results."""

    name: str
    peer: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    target: float
    """Target for the ratio of the peer's time to ours."""
    difference: Callable[[Any, Any], float] | None = None
    """Difference of the two results; None if the two do different work and only the cost is compared."""
    tolerance: float = 0.0
    rounds: int | None = None
    """Upper limit on the rounds, for long work; None means no limit."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Median seconds of both sides and the median ratio over the rounds, with the range of its middle 90 %."""

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
    """Time `rounds` rounds with alternating order; with `difference`, first run both once and compare the results."""
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
    """Seconds that one call takes."""
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
    """The range of the middle 90 % of the values."""
    ordered = sorted(values)
    cut = round(0.05 * (len(ordered) - 1))
    return ordered[cut], ordered[-1 - cut]
