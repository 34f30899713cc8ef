"""Schedules of the learning rate and the attack budget, as pure functions of the step, counted from 0."""

import math
from bisect import bisect_right
from dataclasses import dataclass

from holdfast.errors import expected


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A constant learning rate."""

    lr: float

    def __post_init__(self) -> None:
        _check_rates(self.lr)

    def __call__(self, step: int) -> float:
        return self.lr


@dataclass(frozen=True, kw_only=True)
class Piecewise:
    """`values[i]` before step `boundaries[i]`, which is the first step with the next value.

    The example is the Flower schedule of the paper: 1e-4 in the first 1,500 steps, 1e-3 until step 70,000, then 1e-4.

    >>> flower = Piecewise(boundaries=(1500, 70000), values=(1e-4, 1e-3, 1e-4))
    >>> [flower(step) for step in (0, 1499, 1500, 69999, 70000)]
    [0.0001, 0.0001, 0.001, 0.001, 0.0001]
    """

    boundaries: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_rates(*self.values)
        if len(self.values) != len(self.boundaries) + 1:
            got = f"{len(self.values)} values for {len(self.boundaries)} boundaries"
            raise expected("one more value than boundaries", got=got)
        if any(b <= a for a, b in zip((0, *self.boundaries), self.boundaries, strict=False)):
            raise expected("positive, increasing boundaries", got=self.boundaries)

    def __call__(self, step: int) -> float:
        return self.values[bisect_right(self.boundaries, step)]


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """Half a cosine wave from `lr` to `floor` over `steps` steps (Loshchilov and Hutter 2017, without restarts)."""

    lr: float
    steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        _check_rates(self.lr, self.floor)
        _check_steps(self.steps)

    def __call__(self, step: int) -> float:
        return _ease(self.lr, self.floor, step / self.steps)


@dataclass(frozen=True, kw_only=True)
class OneCycle:
    """Rise to `lr` over the fraction `rise` of all steps, then fall, both as half cosine waves (Smith and Topin 2018).

    The schedule starts at `lr / start_divisor` and ends at that value divided by `end_divisor`.
    """

    lr: float
    steps: int
    rise: float = 0.3
    start_divisor: float = 25.0
    end_divisor: float = 1e4

    def __post_init__(self) -> None:
        _check_rates(self.lr)
        _check_steps(self.steps)
        if not 0 <= self.rise <= 1:
            raise expected("rise in [0, 1], a fraction of the steps", got=self.rise)
        if min(self.start_divisor, self.end_divisor) < 1:
            raise expected("divisors >= 1", got=(self.start_divisor, self.end_divisor))

    def __call__(self, step: int) -> float:
        start, top = self.lr / self.start_divisor, max(self.rise * self.steps - 1, 0.0)
        if step < top:
            return _ease(start, self.lr, step / top)
        return _ease(self.lr, start / self.end_divisor, (step - top) / max(self.steps - 1 - top, 1.0))


SCHEDULES = {"constant": Constant, "piecewise": Piecewise, "cosine": Cosine, "one-cycle": OneCycle}
"""Name -> learning rate as a function of the step."""


def budget_at(step: int, warm_up_steps: int) -> float:
    """Factor on the attack radius: 0 at step 0, linear growth to 1 at `warm_up_steps`, then 1.

    >>> [budget_at(step, 4) for step in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(1.0, step / warm_up_steps) if warm_up_steps else 1.0


def _ease(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(share, 1.0))) / 2


def _check_rates(*rates: float) -> None:
    if not all(0 <= rate < math.inf for rate in rates):
        raise expected("learning rates >= 0", got=rates)


def _check_steps(steps: int) -> None:
    if steps < 1:
        raise expected("steps >= 1", got=steps)
