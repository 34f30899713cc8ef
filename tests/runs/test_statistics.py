"""Medians, means, shares and their intervals, against values worked out by hand."""

import math

import numpy as np
import pytest

from holdfast.runs import Bootstrap, describe, wilson


def test_describe_by_hand() -> None:
    stats = describe(np.array([4.0, 1.0, 3.0, 2.0]))
    assert stats["median"] == 2.5
    assert stats["mean"] == 2.5
    assert stats["quartiles"] == (1.75, 3.25)
    assert stats["n"] == 4
    assert stats["ci95"][0] <= 2.5 <= stats["ci95"][1]


def test_describe_nothing_is_not_available() -> None:
    stats = describe(np.array([]))
    assert stats["n"] == 0
    assert {stats[key] for key in ("median", "mean", "ci95", "mean_ci95", "quartiles")} == {None}


@pytest.mark.parametrize("n", [1, 2, 7, 8, 40, 41])
def test_median_interval_is_that_of_the_plain_bootstrap(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    fast = Bootstrap(resamples=20_000).median(values)
    draws = np.random.default_rng(1).integers(0, n, (50_000, n))
    plain = np.quantile(np.median(values[draws], axis=1), (0.025, 0.975))
    assert fast == pytest.approx(tuple(plain), abs=0.02)


def test_mean_interval_is_near_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = Bootstrap().mean(values) or (math.nan, math.nan)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_intervals_cover_about_95_percent() -> None:
    """With the default number of resamples; 600 trials leave a standard error of 1 %, and both should reach 94 %."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(600):
        values = rng.normal(size=40)
        for at, interval in enumerate((Bootstrap().median(values), Bootstrap().mean(values))):
            hits[at] += interval is not None and interval[0] <= 0 <= interval[1]
    assert (hits / 600 > 0.91).all()
    assert (hits / 600 < 0.975).all()


def test_same_seed_same_interval() -> None:
    values = np.random.default_rng(0).random(50)
    assert Bootstrap().median(values) == Bootstrap().median(values)
    assert Bootstrap().mean(values) == Bootstrap().mean(values)
    assert Bootstrap().mean(values) != Bootstrap(seed=1).mean(values)


def test_wilson_by_hand() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(0, 0) is None


def test_wilson_ends_exactly_at_none_and_all() -> None:
    for n in range(1, 400):
        assert wilson(0, n)[0] == 0.0  # type: ignore[index]
        assert wilson(n, n)[1] == 1.0  # type: ignore[index]
