"""SSIM, Pearson and the mean squared error: by hand, against clear versions, and on maps without an answer."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from holdfast import metrics

VALUES = st.one_of(st.integers(0, 3).map(float), st.floats(0, 1e3, allow_nan=False, width=32).map(float))


@st.composite
def pair_of_maps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(st.tuples(st.integers(1, 3), st.integers(3, 9), st.integers(3, 9)))
    return draw(hnp.arrays(np.float64, shape, elements=VALUES)), draw(hnp.arrays(np.float64, shape, elements=VALUES))


def slow_ssim(a: np.ndarray, b: np.ndarray, side: int) -> float:
    """One window after the other, with numpy's mean and covariance."""
    u, v, c1, c2 = a / a.max(), b / b.max(), 0.01**2, 0.03**2
    found = []
    for r in range(u.shape[0] - side + 1):
        for c in range(u.shape[1] - side + 1):
            x, y = (m[r : r + side, c : c + side].ravel() for m in (u, v))
            (xx, xy), (_, yy) = np.cov(x, y)
            mx, my = x.mean(), y.mean()
            found.append((2 * mx * my + c1) * (2 * xy + c2) / ((mx**2 + my**2 + c1) * (xx + yy + c2)))
    return float(np.mean(found))


def test_ssim_by_hand() -> None:
    # one window of 3 x 3: a has one bright pixel, b is flat. Means 1/9 and 1, variances 1/9 and 0, covariance 0.
    a, b = torch.zeros(1, 3, 3), torch.full((1, 3, 3), 7.0)
    a[0, 1, 1] = 4.0
    c1, c2 = 1e-4, 9e-4
    expected = (2 / 9 + c1) / (1 / 81 + 1 + c1) * c2 / (1 / 9 + c2)
    assert metrics.ssim(a, b).item() == pytest.approx(expected)


@given(maps=pair_of_maps())
def test_ssim_equals_the_slow_version(maps: tuple[np.ndarray, np.ndarray]) -> None:
    side = 5 if min(maps[0].shape[1:]) >= 5 else 3
    ours = metrics.ssim(*map(torch.from_numpy, maps)).numpy()
    for value, a, b in zip(ours, *maps, strict=True):
        if a.max() > 0 and b.max() > 0:
            assert value == pytest.approx(slow_ssim(a, b, side), abs=1e-9)
        else:
            assert np.isnan(value)


@given(maps=pair_of_maps())
def test_ssim_equals_scikit_image(maps: tuple[np.ndarray, np.ndarray]) -> None:
    theirs = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed").structural_similarity
    side = 5 if min(maps[0].shape[1:]) >= 5 else 3
    ours = metrics.ssim(*map(torch.from_numpy, maps)).numpy()
    for value, a, b in zip(ours, *maps, strict=True):
        if a.max() > 0 and b.max() > 0:
            expected = theirs(a / a.max(), b / b.max(), win_size=side, data_range=1.0)
            assert value == pytest.approx(expected, abs=1e-9)


def test_ssim_needs_a_window() -> None:
    assert metrics.ssim(torch.rand(2, 2, 9), torch.rand(2, 2, 9)).isnan().all()
    assert metrics.ssim(torch.rand(0, 9, 9), torch.rand(0, 9, 9)).shape == (0,)


def test_pearson_by_hand() -> None:
    # centred: (-2, 0, 0, 2) and (-1, 1, 0, 0)
    a, b = torch.tensor([[0.0, 2, 2, 4]]), torch.tensor([[1.0, 3, 2, 2]])
    assert metrics.pearson_r(a, b).item() == pytest.approx(2 / (8 * 2) ** 0.5)


@given(maps=pair_of_maps())
def test_pearson_equals_scipy(maps: tuple[np.ndarray, np.ndarray]) -> None:
    ours = metrics.pearson_r(*map(torch.from_numpy, maps)).numpy()
    for value, a, b in zip(ours, *maps, strict=True):
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            assert np.isnan(value)
        elif np.ptp(a) > 1e-6 and np.ptp(b) > 1e-6:
            assert value == pytest.approx(stats.pearsonr(a.ravel(), b.ravel()).statistic, abs=1e-6)


def test_mean_squared_error_by_hand() -> None:
    a, b = torch.tensor([[[4.0, 0.0], [2.0, 2.0]]]), torch.tensor([[[1.0, 1.0], [0.0, 1.0]]])
    assert metrics.mean_squared_error(a, b).item() == pytest.approx((0 + 1 + 0.25 + 0.25) / 4)


@pytest.mark.parametrize("metric", [metrics.ssim, metrics.mean_squared_error, metrics.pearson_r])
def test_scale_does_not_matter_and_equal_maps_agree(metric) -> None:
    a, b = torch.rand(2, 4, 6, 7, dtype=torch.float64)
    torch.testing.assert_close(metric(3 * a, 5 * b), metric(a, b))
    best = 0.0 if metric is metrics.mean_squared_error else 1.0
    assert (metric(a, a) == best).all()
