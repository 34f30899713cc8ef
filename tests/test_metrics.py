"""The metrics against SciPy, against hand-computed values, and on the inputs that have no answer."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from holdfast import metrics
from holdfast.errors import InputError

RANK_METRICS = [
    (metrics.kendall_tau, lambda a, b: stats.kendalltau(a, b).statistic),
    (metrics.spearman_rho, lambda a, b: stats.spearmanr(a, b).statistic),
]
# few distinct values make ties; many make none
VALUES = st.one_of(
    st.integers(0, 3).map(float),
    st.floats(-1e6, 1e6, allow_nan=False, width=32).map(float),
)


@st.composite
def pair_of_maps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(st.tuples(st.integers(1, 4), st.integers(2, 40)))
    return draw(hnp.arrays(np.float64, shape, elements=VALUES)), draw(hnp.arrays(np.float64, shape, elements=VALUES))


def scipy_rows(oracle, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    constant = [np.ptp(x) == 0 or np.ptp(y) == 0 for x, y in zip(a, b, strict=True)]
    return np.array([np.nan if c else oracle(x, y) for x, y, c in zip(a, b, constant, strict=True)])


@pytest.mark.parametrize(("metric", "oracle"), RANK_METRICS, ids=["kendall", "spearman"])
@given(maps=pair_of_maps())
def test_equals_scipy(metric, oracle, maps: tuple[np.ndarray, np.ndarray]) -> None:
    ours = metric(*map(torch.from_numpy, maps)).numpy()
    np.testing.assert_allclose(ours, scipy_rows(oracle, *maps), atol=1e-6)


@pytest.mark.parametrize(("metric", "oracle"), RANK_METRICS, ids=["kendall", "spearman"])
@settings(max_examples=8)
@given(zeros=st.sampled_from([0.0, 0.5, 0.8, 0.999]), seed=st.integers(0, 1000))
def test_equals_scipy_on_long_maps(metric, oracle, zeros: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a = generator.normal(size=(2, 16384)) * (generator.random((2, 16384)) >= zeros)
    b = (a + generator.normal(size=a.shape)) * (generator.random(a.shape) >= zeros)
    np.testing.assert_allclose(metric(torch.from_numpy(a), torch.from_numpy(b)), scipy_rows(oracle, a, b), atol=1e-6)


def test_kendall_by_hand() -> None:
    # pairs of (1,1) (2,3) (2,2) (4,2): concordant 01 02 03, discordant 13, tied in a: 12, tied in b: 23
    a, b = torch.tensor([[1.0, 2, 2, 4]]), torch.tensor([[1.0, 3, 2, 2]])
    assert metrics.kendall_tau(a, b).item() == pytest.approx((3 - 1) / math.sqrt(5 * 5))


def test_spearman_by_hand() -> None:
    # ranks (1, 2.5, 2.5, 4) and (1, 4, 2.5, 2.5), centred (-1.5, 0, 0, 1.5) and (-1.5, 1.5, 0, 0)
    a, b = torch.tensor([[1.0, 2, 2, 4]]), torch.tensor([[1.0, 3, 2, 2]])
    assert metrics.spearman_rho(a, b).item() == pytest.approx(2.25 / 4.5)


def test_top_k_by_hand_and_first_of_equals_wins() -> None:
    a, b = torch.tensor([[5.0, 4, 3, 3, 0]]), torch.tensor([[0.0, 4, 3, 3, 5]])
    assert metrics.top_k_mask(a, 3).tolist() == [[True, True, True, False, False]]
    assert metrics.top_k_intersection(a, b, k=3).item() == pytest.approx(2 / 3)


def test_cosine_and_center_by_hand() -> None:
    a, b = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    assert metrics.cosine_similarity(a, b).item() == pytest.approx(24 / 25)
    first, second = torch.zeros(1, 3, 5), torch.zeros(1, 3, 5)
    first[0, 0, 0] = first[0, 0, 2] = 1.0  # centre (0, 1)
    second[0, 2, 4] = 7.0  # centre (2, 4)
    assert metrics.center_shift(first, second).item() == pytest.approx(math.hypot(2, 3))


@given(maps=pair_of_maps())
def test_batch_equals_rows(maps: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = map(torch.from_numpy, maps)
    for metric in (metrics.kendall_tau, metrics.spearman_rho, metrics.cosine_similarity):
        rows = torch.cat([metric(a[i : i + 1], b[i : i + 1]) for i in range(len(a))])
        torch.testing.assert_close(metric(a, b), rows, equal_nan=True, rtol=0, atol=0)


@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 3), st.integers(1, 30)), elements=st.integers(0, 29)))
def test_inversions_against_all_pairs(ranks: np.ndarray) -> None:
    ranks = ranks % ranks.shape[1]
    later = np.triu(np.ones((ranks.shape[1],) * 2), 1)
    expected = ((ranks[:, :, None] > ranks[:, None, :]) * later).sum((1, 2))
    assert metrics.count_inversions(torch.from_numpy(ranks)).tolist() == expected.tolist()


@pytest.mark.parametrize("bad", [torch.ones(2, 6), torch.full((2, 6), torch.nan), torch.full((2, 6), torch.inf)])
def test_maps_without_a_ranking_are_nan(bad: torch.Tensor) -> None:
    good = torch.arange(12.0).reshape(2, 6)
    mixed = torch.stack([good[0], bad[1]])
    for metric in (metrics.kendall_tau, metrics.spearman_rho, lambda a, b: metrics.top_k_intersection(a, b, 2)):
        assert metric(good, bad).isnan().all()
        assert metric(bad, good).isnan().all()
        assert metric(good, mixed).isnan().tolist() == [False, True]


def test_zero_maps_have_no_angle_and_no_centre() -> None:
    zero, good = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
    assert metrics.cosine_similarity(zero, good).isnan().all()
    assert metrics.center_shift(zero, good).isnan().all()


def test_identical_maps_agree_exactly() -> None:
    a = torch.randn(4, 7, 9)
    assert (metrics.kendall_tau(a, a) == 1).all()
    assert (metrics.top_k_intersection(a, a, 5) == 1).all()
    assert (metrics.center_shift(a.abs(), a.abs()) == 0).all()
    assert (metrics.spearman_rho(a, a) == 1).all()
    assert (metrics.cosine_similarity(a, a) == 1).all()


@pytest.mark.parametrize("k", [0, -1, 7])
def test_k_must_fit_the_map(k: int) -> None:
    with pytest.raises(InputError, match="1 <= k <= 6"):
        metrics.top_k_intersection(torch.rand(1, 6), torch.rand(1, 6), k=k)


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match="one shape"):
        metrics.kendall_tau(torch.rand(1, 6), torch.rand(1, 5))
    with pytest.raises(InputError, match=r"\[B, H, W\]"):
        metrics.center_shift(torch.rand(1, 6), torch.rand(1, 6))
