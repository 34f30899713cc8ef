"""LENS and top-k-div: by hand, against clear versions on sets of pixels, and the values of random maps."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from holdfast import metrics
from holdfast.errors import InputError
from holdfast.metrics import chance

Pixels = set[tuple[int, int]]


def marked(*pixels: tuple[int, int], size: int = 5) -> Tensor:
    """A map whose largest entries are these pixels, in this order."""
    a = torch.zeros(1, size, size)
    for place, (row, column) in enumerate(pixels):
        a[0, row, column] = len(pixels) - place
    return a


def order(a: np.ndarray) -> list[tuple[int, int]]:
    """The pixels of one map from the largest to the smallest; of equal ones the first comes first."""
    pixels = [(r, c) for r in range(a.shape[0]) for c in range(a.shape[1])]
    return sorted(pixels, key=lambda p: -a[p])


def near(pixel: tuple[int, int], others: Pixels, radius: int) -> bool:
    return any(max(abs(pixel[0] - r), abs(pixel[1] - c)) <= radius for r, c in others)


def diverse(a: np.ndarray, k: int, radius: int, pool: int) -> Pixels:
    taken: list[tuple[int, int]] = []
    for pixel in order(a)[:pool]:
        if len(taken) < k and not near(pixel, set(taken), radius):
            taken.append(pixel)
    return set(taken)


def test_recall_and_precision_by_hand() -> None:
    clean = marked((0, 0), (4, 4))
    moved = marked((1, 1), (1, 0))  # both next to the first pixel, nothing near the second
    assert metrics.lens_recall(clean, moved, k=2).item() == 1.0
    assert metrics.lens_precision(clean, moved, k=2).item() == 0.5
    assert metrics.top_k_intersection(clean, moved, k=2).item() == 0.0


def test_the_window_ends_at_the_border() -> None:
    last, first = marked((0, 4)), marked((1, 0))  # neighbours only in the flattened map
    assert metrics.lens_recall(last, first, k=1).item() == 0.0
    assert metrics.lens_recall(marked((0, 0)), marked((0, 1)), k=1).item() == 1.0  # the first pixel counts


def test_radius_by_hand() -> None:
    clean, moved = marked((2, 0)), marked((2, 3))
    found = [metrics.lens_recall(clean, moved, k=1, radius=w).item() for w in (0, 1, 2, 3)]
    assert found == [0, 0, 0, 1]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    height, width = draw(st.integers(1, 7)), draw(st.integers(2, 7))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    levels = draw(st.sampled_from([2, 5, 1000]))  # few levels make ties
    maps = torch.randint(levels, (2, 3, height, width), generator=generator).double()
    return maps, draw(st.integers(1, height * width)), draw(st.integers(0, 3))


@given(case=cases())
def test_equals_sets_of_pixels(case: tuple[Tensor, int, int]) -> None:
    (a, b), k, radius = case
    recall, precision = metrics.lens_recall(a, b, k, radius), metrics.lens_precision(a, b, k, radius)
    usable = (metrics.has_ranking(a) & metrics.has_ranking(b)).tolist()
    for i, ranked in enumerate(usable):
        if not ranked:
            assert recall[i].isnan()
            assert precision[i].isnan()
            continue
        top_a, top_b = (set(order(m[i].numpy())[:k]) for m in (a, b))
        assert recall[i].item() == pytest.approx(sum(near(p, top_a, radius) for p in top_b) / k)
        assert precision[i].item() == pytest.approx(sum(near(p, top_b, radius) for p in top_a) / k)


@given(case=cases(), spare=st.integers(0, 20))
def test_diverse_sets_equal_the_greedy_loop(case: tuple[Tensor, int, int], spare: int) -> None:
    (a, b), k, radius = case
    pool = min(k + spare, a[0].numel())
    masks = metrics.diverse_top_k_mask(a, k, radius, pool)
    usable = (metrics.has_ranking(a) & metrics.has_ranking(b)).tolist()
    shares = [metric(a, b, k, radius, pool) for metric in (metrics.top_k_div, metrics.lens_recall_div)]
    for i, ranked in enumerate(usable):
        set_a, set_b = (diverse(m[i].numpy(), k, radius, pool) for m in (a, b))
        assert {tuple(p) for p in masks[i].nonzero().tolist()} == set_a
        if ranked:
            assert shares[0][i].item() == pytest.approx(len(set_a & set_b) / max(len(set_a), len(set_b)))
            assert shares[1][i].item() == pytest.approx(sum(near(p, set_a, radius) for p in set_b) / len(set_b))


def test_diverse_sets_are_no_column() -> None:
    """Their cost grows with k: docs/equations.md says why they are functions only."""
    assert not any("diverse_top_k" in str(metric.function) for metric in metrics.METRICS.values())


def test_diverse_sets_by_hand() -> None:
    a = marked((2, 2), (2, 3), (1, 1), (0, 0), (4, 4))  # the second and third are neighbours of the first
    assert metrics.diverse_top_k_mask(a, k=2)[0].nonzero().tolist() == [[0, 0], [2, 2]]
    assert metrics.diverse_top_k_mask(a, k=3)[0].nonzero().tolist() == [[0, 0], [2, 2], [4, 4]]
    assert metrics.diverse_top_k_mask(a, k=2, pool=3)[0].nonzero().tolist() == [[2, 2]]  # nothing else in the pool
    b = marked((2, 2), (4, 3))
    assert metrics.top_k_div(a, b, k=2).item() == 0.5
    assert metrics.lens_recall_div(a, b, k=2).item() == 0.5  # (4, 3) is two rows away from (2, 2)
    assert metrics.lens_recall_div(a, b, k=3).item() == 1.0  # (4, 3) is beside (4, 4), and b's third is (0, 0)


def test_equal_maps_agree_fully_even_if_the_sets_are_small() -> None:
    a = torch.rand(4, 3, 3)
    for metric in (metrics.top_k_div, metrics.lens_recall_div, metrics.lens_precision_div):
        assert (metric(a, a, k=9) == 1).all()  # at most four pixels fit


@pytest.mark.parametrize("metric", [metrics.lens_recall, metrics.top_k_div, metrics.lens_precision_div])
def test_bad_arguments(metric) -> None:
    a = torch.rand(1, 2, 3)
    for k in (0, 7):
        with pytest.raises(InputError, match="1 <= k <= 6"):
            metric(a, a, k=k)
    with pytest.raises(InputError, match="radius >= 0"):
        metric(a, a, k=1, radius=-1)
    with pytest.raises(InputError, match=r"\[B, H, W\]"):
        metric(a[None], a[None], k=1)
    assert metric(a[:0], a[:0], k=1).shape == (0,)


def test_the_pool_must_hold_k_pixels() -> None:
    with pytest.raises(InputError, match="k <= pool <= 6"):
        metrics.diverse_top_k_mask(torch.rand(1, 2, 3), k=3, pool=2)


def test_chance_by_hand() -> None:
    # a line of three pixels, k = 1: an end is near 2 of 3 sets, the middle near all of them
    assert chance.lens(1, 3, k=1) == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)
    assert chance.lens(1, 3, k=2) == pytest.approx(1.0)
    assert chance.top_k(1, 3, k=1) == pytest.approx(1 / 3)
    assert chance.lens(4, 5, k=7, radius=0) == pytest.approx(chance.top_k(4, 5, k=7))
    assert chance.lens(4, 5, k=7, radius=9) == 1.0


@pytest.mark.parametrize(("height", "width", "k", "radius"), [(2, 3, 2, 1), (1, 6, 3, 1), (3, 3, 1, 1), (1, 7, 2, 2)])
def test_chance_of_lens_equals_the_mean_over_all_sets(height: int, width: int, k: int, radius: int) -> None:
    pixels = [(r, c) for r in range(height) for c in range(width)]
    sets = [set(s) for s in combinations(pixels, k)]
    every = [sum(near(p, a, radius) for p in b) / k for a in sets for b in sets]
    assert chance.lens(height, width, k, radius) == pytest.approx(math.fsum(every) / len(every))


def test_chance_of_diverse_sets() -> None:
    # two pixels within reach of each other: one is taken, each with probability 1/2
    assert chance.top_k_div(1, 2, k=2) == pytest.approx(0.5, abs=0.06)
    assert chance.lens_div(1, 2, k=2) == 1.0
    # on a line of three, the middle is taken first with probability 1/3, else both ends: (1/3)^2 + (2/3)^2 agree
    assert chance.top_k_div(1, 3, k=3) == pytest.approx(5 / 9, abs=0.06)
    assert chance.top_k_div(8, 8, k=12) == chance.top_k_div(8, 8, k=12)


def test_random_maps_have_the_value_of_chance() -> None:
    a, b = torch.rand(2, 400, 28, 28, generator=torch.Generator().manual_seed(0))
    found = metrics.lens_recall(a, b, k=100)
    assert found.mean().item() == pytest.approx(chance.lens(28, 28, k=100), abs=4 * found.std().item() / 20)
    assert chance.lens(28, 28, k=100) > 5 * chance.top_k(28, 28, k=100)  # why chance belongs beside the number
