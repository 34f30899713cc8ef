"""The metrics against SciPy, against hand-computed values, and on the inputs that have no answer."""

import math
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from holdfast import metrics
from holdfast.errors import InputError
from holdfast.metrics import METRICS, rank_correlation
from holdfast.metrics import rank_correlation_cpu as ranks

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
    shape = draw(st.tuples(st.integers(1, 4), st.just(1), st.integers(2, 40)))
    return draw(hnp.arrays(np.float64, shape, elements=VALUES)), draw(hnp.arrays(np.float64, shape, elements=VALUES))


def scipy_rows(oracle, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    constant = [np.ptp(x) == 0 or np.ptp(y) == 0 for x, y in zip(a, b, strict=True)]
    return np.array([np.nan if c else oracle(x.ravel(), y.ravel()) for x, y, c in zip(a, b, constant, strict=True)])


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
    a = generator.normal(size=(2, 128, 128)) * (generator.random((2, 128, 128)) >= zeros)
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
    assert rank_correlation.count_inversions(torch.from_numpy(ranks)).tolist() == expected.tolist()


@given(rows=st.integers(0, 3), entries=st.sampled_from([1, 2, 3, 63, 64, 65, 127, 130, 257]), seed=st.integers(0, 99))
def test_halving_counts_the_inversions_of_permutations(rows: int, entries: int, seed: int) -> None:
    places = np.random.default_rng(seed).permuted(np.tile(np.arange(entries), (rows, 1)), axis=1)
    assert (
        ranks.count_inversions(places).tolist() == rank_correlation.count_inversions(torch.from_numpy(places)).tolist()
    )


WITH_PLACES = {"center_shift", "lens_recall", "lens_precision", "ssim"}
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
# signs, both zeros, neighbours of zero, the ends of every type, and what has no ranking
SPECIAL = [0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 3e38, -3e38, math.inf, -math.inf, math.nan]


@given(
    dtype=st.sampled_from([*FLOATS, torch.int64, torch.int32, torch.uint8]),
    entries=st.sampled_from([1, 2, 3, 30, 70]),
    share=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    special=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_fast_products_equal_those_of_any_device(
    dtype: torch.dtype, entries: int, share: float, special: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = (2 * torch.randn(2, 4, entries, generator=generator, dtype=torch.float64)).to(dtype)
    zero = torch.rand(2, 4, entries, generator=generator) < share
    a, b = a.masked_fill(zero[0], 0), b.masked_fill(zero[seed % 2], 0)  # zeros in the same places, or in others
    if special and dtype.is_floating_point:
        a[0, 0] = SPECIAL[seed % len(SPECIAL)]
        b[1, -1] = SPECIAL[seed // 2 % len(SPECIAL)]
    for fast, generic in (
        (ranks.sign_products, rank_correlation.sign_products),
        (ranks.rank_products, rank_correlation.rank_products),
    ):
        for ours, expected in zip(fast(a, b), generic(a, b), strict=True):
            assert ours.tolist() == expected.tolist()


def test_numbers_of_64_bits_that_differ_only_in_the_last() -> None:
    a = torch.tensor([[1.0, 1 + 2**-52, 1 + 2**-51, -1.0, -1 - 2**-52]], dtype=torch.float64)
    whole = torch.tensor([[2**62, 2**62 + 1, 2**62 + 2, -(2**62), -(2**62) - 1]])
    assert metrics.kendall_tau(a, whole).item() == 1
    assert metrics.spearman_rho(a, -whole).item() == -1


def test_rows_taken_at_a_time_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(5, 4, 10).clamp_min(0), torch.randn(5, 4, 10).clamp_min(0)
    at_once = metrics.kendall_tau(a, b), metrics.spearman_rho(a, b)
    monkeypatch.setattr(ranks, "AT_A_TIME", 80)
    assert torch.equal(torch.stack([metrics.kendall_tau(a, b), metrics.spearman_rho(a, b)]), torch.stack(at_once))


def test_long_rows_in_two_threads_give_the_same_integers() -> None:
    generator, threads = torch.Generator().manual_seed(0), torch.get_num_threads()
    a, b = torch.randn(2, 5, ranks.LONG_ROW, generator=generator).clamp_min(-0.5)  # 5 rows: blocks of 4 and 1
    pairs = (
        (ranks.sign_products, rank_correlation.sign_products),
        (ranks.rank_products, rank_correlation.rank_products),
    )
    try:
        for fast, generic in pairs:
            torch.set_num_threads(2)
            with ThreadPoolExecutor(3) as callers:  # callers share the two threads
                found = list(callers.map(lambda _, fast=fast: fast(a, b), range(6)))
            torch.set_num_threads(1)
            for ours in (*found, fast(a, b)):
                assert [p.tolist() for p in ours] == [p.tolist() for p in generic(a, b)]
    finally:
        torch.set_num_threads(threads)


def test_an_error_in_one_of_two_threads_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(ranks, "_without_common_zeros", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ranks.rank_products(torch.zeros(2, ranks.LONG_ROW), torch.zeros(2, ranks.LONG_ROW))


@pytest.mark.parametrize("metric", [metrics.kendall_tau, metrics.spearman_rho])
def test_no_maps_and_maps_of_one_entry(metric) -> None:
    assert metric(torch.rand(0, 5, 5), torch.rand(0, 5, 5)).shape == (0,)
    assert metric(torch.rand(3, 1, 1), torch.rand(3, 1, 1)).isnan().tolist() == [True] * 3


def test_strided_maps_and_maps_with_a_gradient() -> None:
    a, b = torch.randn(5, 9, 4, requires_grad=True), torch.randn(5, 9, 4)
    for metric in (metrics.kendall_tau, metrics.spearman_rho):
        assert torch.equal(metric(a.mT, b.mT), metric(a.mT.contiguous(), b.mT.contiguous()))


@pytest.mark.parametrize(
    "bad", [torch.ones(2, 2, 3), torch.full((2, 2, 3), torch.nan), torch.full((2, 2, 3), torch.inf)]
)
def test_maps_without_a_ranking_are_nan(bad: torch.Tensor) -> None:
    good = torch.arange(12.0).reshape(2, 2, 3)
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
    with pytest.raises(InputError, match="the same shape"):
        metrics.kendall_tau(torch.rand(1, 6), torch.rand(1, 5))
    with pytest.raises(InputError, match=r"\[B, H, W\]"):
        metrics.center_shift(torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4))
    with pytest.raises(InputError, match=r"passed as map\[None\]"):
        metrics.kendall_tau(torch.rand(6), torch.rand(6))


@pytest.mark.parametrize("name", list(METRICS))
def test_two_dimensions_are_a_batch_of_flattened_maps(name: str) -> None:
    a, b = torch.rand(2, 3, 5, 7)
    if name in WITH_PLACES:
        with pytest.raises(InputError, match=r"maps \[B, H, W\].*passed as map\[None\]"):
            METRICS[name](a.flatten(1), b.flatten(1), k=4)
    else:
        found = METRICS[name](a.flatten(1), b.flatten(1), k=4)
        assert found.shape == (3,)
        torch.testing.assert_close(found, METRICS[name](a, b, k=4), rtol=0, atol=0)


@pytest.mark.parametrize("name", list(METRICS))
def test_numpy_arrays_are_accepted(name: str) -> None:
    a, b = np.random.default_rng(0).random((2, 3, 5, 7))
    wanted = METRICS[name](torch.from_numpy(a), torch.from_numpy(b), k=4)
    a.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch warns about memory that it must not write to
        for first, second in ((a, b), (a, torch.from_numpy(b))):
            assert torch.equal(METRICS[name](first, second, k=4), wanted)
        flipped = METRICS[name](a[:, ::-1], b[:, ::-1], k=4)  # negative strides
    assert torch.equal(flipped, METRICS[name](a[:, ::-1].copy(), b[:, ::-1].copy(), k=4))
    assert METRICS[name](a[:1], b[:1], k=4).tolist() == wanted[:1].tolist()


def test_what_is_no_map_is_refused() -> None:
    for other in (None, "map", {"a": 1}):
        with pytest.raises(InputError, match="NumPy arrays of numbers"):
            metrics.kendall_tau(np.eye(3), other)
