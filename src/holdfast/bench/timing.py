"""Timing of two implementations in interleaved rounds, with one ratio per round to cancel changes in machine speed."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, sqrt
from statistics import median
from typing import Any

from holdfast.engine.passes import count_passes
from holdfast.errors import HoldfastError

TIGHT = 0.1
"""A row is noisy if the confidence interval of its median is wider than this share of the median."""


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
    their_passes: int | None = None
    """Example-passes of the peer, if they are to be compared, too."""


@dataclass(frozen=True, kw_only=True)
class Row(ABC):
    """A median over `rounds` rounds that should be at least `target`.

    `interval` is the range of the middle 90 % of the rounds. `median_interval` is a 95 % confidence interval of the
    median; it becomes narrower with more rounds.
    """

    name: str
    target: float
    rounds: int
    interval: tuple[float, float]
    median_interval: tuple[float, float]

    @property
    @abstractmethod
    def value(self) -> float:
        """The median."""

    @property
    def noisy(self) -> bool:
        """Whether the confidence interval of the median is wider than `TIGHT` of the median."""
        low, high = self.median_interval
        return high - low > TIGHT * self.value

    @property
    def reached(self) -> bool:
        """Whether the lower end of the confidence interval meets the target."""
        return self.median_interval[0] >= self.target


@dataclass(frozen=True, kw_only=True)
class Timing(Row):
    """Median seconds of both sides and the median ratio over the rounds.

    `passes` are the example-passes of both sides, ours first.
    """

    peer: str
    ours: float
    theirs: float
    ours_range: tuple[float, float]
    ratio: float
    difference: float | None
    pairs: tuple[tuple[float, float], ...] = ()
    """Seconds of every round, ours first."""
    passes: tuple[int, int] | None = None

    @property
    def value(self) -> float:
        """The median ratio."""
        return self.ratio


def time_case(case: Case, *, rounds: int, known: Timing | None = None) -> Timing:
    """Time `rounds` rounds with alternating order; with `difference`, first run both once and compare the results.

    `known` is an earlier timing of the same case; its rounds count, too.
    """
    rounds = min(rounds, case.rounds or rounds)
    difference, passes, pairs = (None, None, []) if known is None else (known.difference, known.passes, [*known.pairs])
    if known is None and case.difference is not None:
        difference = case.difference(case.ours(), case.theirs())
        if not difference <= case.tolerance:
            raise UnequalError(f"{case.name}: results differ from {case.peer} by {difference:g} > {case.tolerance:g}.")
    if known is None and case.their_passes is not None:
        with count_passes() as counter:
            case.ours()
        passes = (counter.passes, case.their_passes)
    pairs += [_one_round(case, ours_first=number % 2 == 0) for number in range(rounds)]
    ratios = [theirs / ours for ours, theirs in pairs]
    return Timing(
        name=case.name,
        peer=case.peer,
        ours=median(ours for ours, _ in pairs),
        theirs=median(theirs for _, theirs in pairs),
        ours_range=middle([ours for ours, _ in pairs]),
        ratio=median(ratios),
        interval=middle(ratios),
        rounds=len(pairs),
        difference=difference,
        target=case.target,
        pairs=tuple(pairs),
        median_interval=median_interval(ratios),
        passes=passes,
    )


def median_interval(values: list[float]) -> tuple[float, float]:
    """A 95 % confidence interval of the median from order statistics, whatever the distribution.

    >>> median_interval([float(i) for i in range(1, 26)])
    (8.0, 18.0)
    """
    ordered = sorted(values)
    reach = 0.98 * sqrt(len(ordered))  # 1.96 standard deviations of the number of values below the median
    low, high = floor((len(ordered) - 1) / 2 - reach), ceil((len(ordered) - 1) / 2 + reach)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


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


def middle(values: list[float]) -> tuple[float, float]:
    """The range of the middle 90 % of the values."""
    ordered = sorted(values)
    cut = round(0.05 * (len(ordered) - 1))
    return ordered[cut], ordered[-1 - cut]
