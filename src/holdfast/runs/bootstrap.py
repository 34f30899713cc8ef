"""Confidence intervals: percentile bootstrap of medians, means and paired differences; Wilson interval of a share.

All are 95 % intervals. The bootstrap resamples the examples with replacement; the same seed gives the same interval.
Reference: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 16.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Interval = tuple[float, float]

_CHUNK = 1 << 21
_TAILS = (0.025, 0.975)
_NORMAL = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """The number of resamples and the seed."""

    resamples: int = 2000
    seed: int = 0

    def median(self, values: Values) -> Interval | None:
        """Interval of the median of `values` [n]; None for no values.

        No resample is built: the k-th smallest of n uniform draws follows Beta(k, n + 1 - k), so the two middle
        positions of a resample are drawn directly. The distribution is exactly that of the plain bootstrap. Draws are
        cheap, so ten times `resamples` are taken: a fixed seed gives all intervals the same Monte Carlo error, and with
        few draws that error alone would change their coverage by whole percentage points.
        Coverage on normal samples: 94 % at n = 40, 95 % at n = 100, as known for this bootstrap.
        """
        n = len(values)
        if n == 0:
            return None
        draws = 10 * self.resamples
        lower = self._rng(n).beta((n + 1) // 2, n + 1 - (n + 1) // 2, size=draws)
        upper = lower
        if n % 2 == 0:
            upper = lower + (1 - lower) * self._rng(n + 1).beta(1, n // 2, size=draws)
        ordered = np.sort(values)
        position = np.minimum(np.stack([lower, upper]) * n, n - 1).astype(np.int64)
        return _tails(ordered[position].mean(0))

    def mean(self, values: Values) -> Interval | None:
        """Interval of the mean of `values` [n]; None for no values."""
        if len(values) == 0:
            return None
        return _tails(np.concatenate([values[draw].mean(1) for draw in self._draws(len(values))]))

    def paired(self, a: Values, b: Values) -> tuple[Interval, Interval] | None:
        """Intervals of median(b) - median(a) and of mean(b - a); each resample takes the same examples from both."""
        if len(a) == 0:
            return None
        medians, means = [], []
        for draw in self._draws(len(a)):
            from_a, from_b = a[draw], b[draw]
            means.append((from_b - from_a).mean(1))
            medians.append(np.median(from_b, axis=1) - np.median(from_a, axis=1))
        return _tails(np.concatenate(medians)), _tails(np.concatenate(means))

    def _rng(self, key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, key])

    def _draws(self, n: int) -> Iterator[NDArray[np.int32]]:
        """Indices of the resamples [rows, n], a bounded number of rows at a time."""
        rng = self._rng(n)
        rows = max(1, _CHUNK // n)
        for start in range(0, self.resamples, rows):
            yield rng.integers(0, n, size=(min(rows, self.resamples - start), n), dtype=np.int32)


def wilson(successes: int, n: int) -> Interval | None:
    """Wilson interval of a share; unlike mean ± 2 standard errors it stays in [0, 1] and is valid at 0 and 1.

    >>> tuple(round(end, 3) for end in wilson(5, 10))
    (0.237, 0.763)
    """
    if n == 0:
        return None
    share, z2 = successes / n, _NORMAL**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # Exact ends: with no (or only) successes, rounding would leave a few 1e-17 between the end and 0 (or 1).
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    return low, 1.0 if successes == n else min(1.0, middle + half)


def _tails(statistic: Values) -> Interval:
    low, high = np.quantile(statistic, _TAILS)
    return float(low), float(high)
