"""Certified pixels: the agreements that are needed, the radius, abstention, and SciPy's binomial test as oracle."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from holdfast.certificates.pixels import certify_pixels, pixel_radius
from holdfast.errors import InputError


def needed(pixels: int, draws: int) -> int:
    """The smallest number of agreements that certifies a pixel of an image with so many pixels."""
    for agreements in range(draws + 1):
        rest = torch.zeros(1, pixels, dtype=torch.int64)
        rest[0, 0] = agreements
        found = certify_pixels(torch.full_like(rest, 10), 10, rest, draws, sigma=0.25, alpha=0.001, tau=0.75)
        if found.labels[0, 0] == 1:
            return agreements
    raise AssertionError("never certified")


def test_needed_agreements_by_hand() -> None:
    assert needed(784, 90) == 85
    assert needed(50_176, 90) == 88


@pytest.mark.parametrize(("sigma", "radius"), [(0.15, 0.10), (0.25, 0.17), (0.33, 0.22)])
def test_radius_of_the_paper(sigma: float, radius: float) -> None:
    assert pixel_radius(sigma, 0.75) == pytest.approx(radius, abs=5e-3)
    assert pixel_radius(sigma, 0.75) == pytest.approx(sigma * norm.ppf(0.75))


@given(
    agreements=st.integers(0, 120), top=st.booleans(), alpha=st.sampled_from([0.05, 0.001]), tau=st.floats(0.55, 0.95)
)
def test_certified_exactly_if_scipys_test_rejects(agreements: int, top: bool, alpha: float, tau: float) -> None:
    pixels, draws = 40, 120
    first = torch.full((1, pixels), 9 if top else 1)
    rest = torch.full((1, pixels), agreements if top else draws - agreements)
    found = certify_pixels(first, 10, rest, draws, sigma=0.25, alpha=alpha, tau=tau)
    p = binomtest(agreements, draws, tau, alternative="greater").pvalue
    assert found.labels.unique().tolist() == [int(top) if p <= alpha / pixels else -1]


def test_radii_by_hand() -> None:
    first, rest = torch.tensor([[10, 10, 0, 0]]), torch.tensor([[100, 50, 0, 100]])
    found = certify_pixels(first, 10, rest, 100, sigma=0.2, alpha=0.04, tau=0.8)
    assert found.labels.tolist() == [[1, -1, 0, -1]]  # the last one was 0 at first, and then always 1
    assert found.certified.tolist() == [0.5]
    largest = 0.2 * norm.ppf(0.01 ** (1 / 100))  # all of 100 agree, at the level 0.04 / 4
    assert found.radii[0].tolist() == pytest.approx([largest, 0, largest, 0])


def test_bad_tau() -> None:
    with pytest.raises(InputError, match=r"0.5 < tau < 1"):
        certify_pixels(torch.ones(1, 2), 1, torch.ones(1, 2), 1, sigma=0.1, alpha=0.1, tau=0.5)
