"""The certified overlap: Levine's numbers by hand, the counting against brute force, and who may leave the top k."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from holdfast.certificates.binomial import hoeffding_margin
from holdfast.certificates.top_k_overlap import certify_overlap, overlap_margins, possible_overlap
from holdfast.metrics.top_k import top_k_mask


def by_the_paper(z: list[float], k: int, c: float, ratio: float) -> int:
    """#{i <= K : Phi(Phi^-1(z_(i) - c) - 2 rho / sigma) - c > z_(2 K - i + 1)}, one pixel after the other."""
    z = sorted(z, reverse=True)
    kept = 0
    for i in range(1, k + 1):
        left = norm.cdf(norm.ppf(max(z[i - 1] - c, 0)) - 2 * ratio) - c
        kept += 2 * k - i + 1 > len(z) or left > z[2 * k - i]
    return kept


def test_a_pixel_that_is_always_in_the_set_by_hand() -> None:
    """z = 1 and c = 0.0356: the lower bound at x' is 0.75 for rho / sigma = 0.5, and 0.39 for rho / sigma = 1."""
    draws, sigma = 4096, 0.25
    c = hoeffding_margin(draws, alpha=0.05, comparisons=784)
    for ratio, value in ((0.5, 0.754), (1.0, 0.387)):
        # Phi^-1(0.9644) = 1.805; Phi(0.805) = 0.790; Phi(-0.195) = 0.423; minus 0.036
        assert norm.cdf(norm.ppf(1 - c) - 2 * ratio) - c == pytest.approx(value, abs=1e-3)
        for other, kept in ((value - 0.005, 1), (value + 0.005, 0)):
            counts = torch.zeros(1, 784, dtype=torch.int64)
            counts[0, 5], counts[0, 77] = draws, round(draws * other)
            found = certify_overlap(counts, draws, k=1, sigma=sigma, alpha=0.05, bound="hoeffding")
            assert found.kept(ratio * sigma).item() == kept


@given(
    counts=st.lists(st.integers(0, 500), min_size=4, max_size=12),
    k=st.integers(1, 4),
    ratio=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_equal_to_the_formula_of_the_paper(counts: list[int], k: int, ratio: float) -> None:
    found = certify_overlap(torch.tensor([counts]), 500, k, sigma=0.5, alpha=0.05, bound="hoeffding")
    c = (torch.tensor(2 * len(counts) / 0.05).double().log() / 1000).sqrt().item()
    assert found.kept(ratio * 0.5).item() * k == pytest.approx(by_the_paper([n / 500 for n in counts], k, c, ratio))


def test_radii_by_hand() -> None:
    counts = torch.tensor([[200, 150, 20, 0]])
    found = certify_overlap(counts, 200, k=2, sigma=0.3, alpha=0.01, bound="clopper-pearson")
    low, high = 0.00125 ** (1 / 200), 1 - 0.00125 ** (1 / 200)  # of 200 and of 0 successes, at the level 0.01 / (2 * 4)
    first = 0.15 * (norm.ppf(low) - norm.ppf(high))  # pixel 0 against pixel 3: one of two stays
    assert found.radii[0, 0].item() == pytest.approx(first)
    assert found.inside.tolist() == [[True, True, False, False]]
    assert found.kept(first - 1e-6).item() >= 0.5
    assert found.kept(first + 1e-6).item() == 0


def smallest_overlap(lower: list[int], upper: list[int], inside: list[bool]) -> int:
    """The smallest overlap over all maps within integer bounds; ties go against the pixels inside."""
    k, best = sum(inside), len(inside)
    for values in itertools.product(*(range(low, high + 1) for low, high in zip(lower, upper, strict=True))):
        order = sorted(range(len(values)), key=lambda i: (-values[i], inside[i]))
        best = min(best, sum(inside[i] for i in order[:k]))
    return best


@given(st.data())
def test_counting_against_brute_force(data: st.DataObject) -> None:
    """The smallest overlap over all maps within the bounds is exactly the number of positive margins."""
    pixels = data.draw(st.integers(2, 5))
    lower = data.draw(st.lists(st.integers(0, 4), min_size=pixels, max_size=pixels))
    upper = [low + data.draw(st.integers(0, 2)) for low in lower]
    k = data.draw(st.integers(1, pixels))
    inside = top_k_mask(torch.tensor([lower]) + torch.tensor([upper]), k)
    margins = overlap_margins(torch.tensor([lower]).double(), torch.tensor([upper]).double(), inside)
    assert int((margins > 0).sum()) == smallest_overlap(lower, upper, inside[0].tolist())


def test_possible_overlap_by_hand() -> None:
    lower = torch.tensor([[0.9, 0.1, 0.6, 0.0]])
    upper = torch.tensor([[1.0, 0.3, 0.7, 0.65]])
    inside = torch.tensor([[True, True, False, False]])
    assert possible_overlap(lower, upper, inside).item() == 0.5  # pixels 0 and 2 are surely above pixel 1
    assert possible_overlap(torch.zeros(1, 4), torch.ones(1, 4), inside).item() == 1


@given(st.data())
def test_the_possible_overlap_is_never_exceeded(data: st.DataObject) -> None:
    numbers = st.lists(st.floats(0, 1, width=32), min_size=6, max_size=6)
    values, margin = torch.tensor([data.draw(numbers)]), torch.tensor([data.draw(numbers)])
    inside = top_k_mask(torch.tensor([data.draw(numbers)]), 3)
    overlap = (top_k_mask(values, 3) & inside).sum().item() / 3
    assert overlap <= possible_overlap(values - margin, values + margin, inside).item() + 1e-12
