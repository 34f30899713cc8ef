"""Confidence bounds: by hand, against SciPy's exact test, and their coverage."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from holdfast.certificates.binomial import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    hoeffding_margin,
    simultaneous_bounds,
)
from holdfast.errors import InputError


def test_by_hand() -> None:
    low = clopper_pearson_lower(torch.tensor([0, 1, 5]), trials=5, alpha=0.05)
    # no success: 0; one success of five: 1 - 0.95^(1/5); five of five: 0.05^(1/5)
    torch.testing.assert_close(low, torch.tensor([0.0, 1 - 0.95**0.2, 0.05**0.2], dtype=torch.float64))
    high = clopper_pearson_upper(torch.tensor([0, 5]), trials=5, alpha=0.05)
    torch.testing.assert_close(high, torch.tensor([1 - 0.05**0.2, 1.0], dtype=torch.float64))


@given(trials=st.integers(1, 300), share=st.floats(0, 1), alpha=st.sampled_from([0.05, 1e-3, 1e-7]))
def test_equal_to_the_interval_of_scipys_exact_test(trials: int, share: float, alpha: float) -> None:
    successes = round(share * trials)
    oracle = binomtest(successes, trials).proportion_ci(1 - 2 * alpha, method="exact")
    count = torch.tensor([successes])
    assert float(clopper_pearson_lower(count, trials, alpha)) == pytest.approx(oracle.low, abs=1e-9)
    assert float(clopper_pearson_upper(count, trials, alpha)) == pytest.approx(oracle.high, abs=1e-9)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.97])
def test_a_bound_is_wrong_with_probability_at_most_alpha(p: float) -> None:
    trials, alpha = 60, 0.05
    counts = torch.arange(trials + 1)
    probability = torch.from_numpy(binom.pmf(counts.numpy(), trials, p))
    assert float(probability[clopper_pearson_lower(counts, trials, alpha) > p].sum()) <= alpha
    assert float(probability[clopper_pearson_upper(counts, trials, alpha) < p].sum()) <= alpha


def test_hoeffding_margin_by_hand() -> None:
    # sqrt(ln(2 * 784 / 0.05) / (2 * 1024)) = sqrt(10.3534 / 2048)
    assert hoeffding_margin(1024, alpha=0.05, comparisons=784) == pytest.approx(0.0711, abs=5e-5)
    assert hoeffding_margin(4096, alpha=0.05, comparisons=784) == pytest.approx(0.0356, abs=5e-5)


def test_bounds_of_all_pixels_at_once() -> None:
    counts = torch.tensor([[0, 50, 100]])
    low, high = simultaneous_bounds(counts, 100, 0.06, "clopper-pearson")
    torch.testing.assert_close(low, clopper_pearson_lower(counts, 100, 0.01))
    torch.testing.assert_close(high, clopper_pearson_upper(counts, 100, 0.01))
    c = hoeffding_margin(100, 0.06, comparisons=3)
    low, high = simultaneous_bounds(counts, 100, 0.06, "hoeffding")
    assert low.tolist() == [[0, 0.5 - c, 1 - c]]
    assert high.tolist() == [[c, 0.5 + c, 1]]


def test_clopper_pearson_is_tighter_near_the_ends() -> None:
    counts = torch.tensor([[0, 1000]])
    exact, paper = (simultaneous_bounds(counts, 1000, 0.05, bound) for bound in ("clopper-pearson", "hoeffding"))
    assert bool((exact[1] - exact[0] < 0.2 * (paper[1] - paper[0])).all())


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="bound to be one of clopper-pearson, hoeffding"):
        simultaneous_bounds(torch.zeros(1, 2, dtype=torch.int64), 10, 0.05, "wald")
    with pytest.raises(InputError, match="0 < alpha < 1"):
        clopper_pearson_lower(torch.tensor([1]), 10, 0.0)
    with pytest.raises(InputError, match="at least one trial"):
        hoeffding_margin(0, 0.05)
