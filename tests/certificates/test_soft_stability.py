"""Soft stability: sample sizes, the uniform choice of supersets, and a rate with a closed form."""

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb
from scipy.stats import chisquare
from tests.trained import digits, trained

import holdfast as hf
from holdfast.certificates.soft_stability import (
    added_patches,
    default_grid,
    patches,
    sample_size,
    size_probabilities,
    soft_stability,
)
from holdfast.errors import InputError


def test_sample_size_by_hand() -> None:
    # ln(20) / 0.02 = 149.8 and ln(40) / 0.005 = 737.8
    assert sample_size(0.1, 0.1) == 150
    assert sample_size(0.05, 0.05) == 738


@given(free=st.integers(0, 300), most=st.integers(0, 300))
def test_sizes_are_proportional_to_binomial_coefficients(free: int, most: int) -> None:
    most = min(free, most)
    exact = [math.comb(free, j) for j in range(most + 1)]
    oracle = torch.tensor([c / sum(exact) for c in exact], dtype=torch.float64)
    torch.testing.assert_close(size_probabilities(free, most), oracle, rtol=1e-9, atol=1e-12)
    assert comb(free, most, exact=True) == exact[-1]


def test_every_superset_is_equally_likely() -> None:
    chosen = torch.tensor([[True, False, False, False, True, False]])
    keys = hf.make_keys(0, torch.arange(22_000))[None]
    added = added_patches(chosen, keys, most=2)[0]
    assert not bool((added & chosen).any())
    sets = [frozenset(c) for size in range(3) for c in combinations((1, 2, 3, 5), size)]
    assert len(sets) == 11
    found = dict.fromkeys(sets, 0)
    for code, count in zip(*torch.unique(added, dim=0, return_counts=True), strict=True):
        found[frozenset(code.nonzero().flatten().tolist())] = int(count)
    assert sum(found.values()) == 22_000
    assert chisquare(list(found.values())).pvalue > 1e-3


def test_patches_by_hand() -> None:
    assert patches(4, 6, 2).tolist() == [[0, 0, 0, 1, 1, 1]] * 2 + [[2, 2, 2, 3, 3, 3]] * 2
    assert patches(5, 5, 2)[:, 0].tolist() == [0, 0, 0, 2, 2]
    assert [default_grid(side) for side in (8, 28, 32, 224)] == [4, 7, 7, 14]


def counts_bright_patches(limit: float):
    """Class 1 as soon as more than `limit` of the shown patches (each of mean 1) are visible."""
    return lambda x: torch.stack([x.new_full((x.shape[0],), limit), x.flatten(1).sum(1)], 1)


def test_a_rate_with_a_closed_form() -> None:
    """4 x 4 patches of one pixel, 4 shown, up to 3 of 12 added: the label changes if 3 are added."""
    x = torch.ones(1, 1, 4, 4)
    maps = torch.arange(16.0).reshape(1, 4, 4)
    found = soft_stability(
        counts_bright_patches(6.5), x, maps, keys=torch.tensor([5]), grid=4, radius=3, error=0.02, doubt=1e-4
    )
    same = 1 - math.comb(12, 3) / sum(math.comb(12, j) for j in range(4))  # 79 / 299
    assert abs(found.rate.item() - same) <= 0.02
    assert found.at_least.item() == pytest.approx(found.rate.item() - 0.02)
    assert (found.samples, found.shown, found.radius, found.grid) == (sample_size(0.02, 1e-4), 4, 3, 4)


def test_nothing_added_changes_nothing() -> None:
    x, y = digits("test")
    maps = hf.saliency_map(hf.Gradient()(trained("digits-cnn", 8), x[:6], y[:6]))
    found = soft_stability(trained("digits-cnn", 8), x[:6], maps, keys=torch.arange(6), radius=0)
    assert found.rate.tolist() == [1.0] * 6


def test_the_batch_changes_nothing() -> None:
    x, y = digits("test")
    x, y, keys, net = x[:6], y[:6], torch.arange(6), trained("digits-cnn", 8)
    maps = hf.saliency_map(hf.Gradient()(net, x, y))
    whole = soft_stability(net, x, maps, keys=keys, radius=4).rate
    parts = [soft_stability(net, x[i:][:1], maps[i:][:1], keys=keys[i:][:1], radius=4).rate for i in range(6)]
    assert whole.equal(torch.cat(parts))


def test_bad_settings() -> None:
    x = torch.rand(1, 1, 4, 4)
    with pytest.raises(InputError, match="a grid from 1 to 4"):
        soft_stability(lambda v: v.flatten(1), x, x[:, 0], keys=torch.arange(1), grid=5)
    with pytest.raises(InputError, match="error and doubt"):
        sample_size(0.0, 0.1)
