"""The smooth substitutes of the rank metrics: by hand, and their limit at width zero."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.losses import LogTopK, SoftKendall
from holdfast.losses.soft_ranks import KENDALL_FLOOR, TOP_K_FLOOR
from holdfast.metrics import kendall_tau, top_k_intersection


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def test_log_top_k_by_hand() -> None:
    clean, shown = torch.tensor([[[4.0, 3.0], [2.0, 1.0]]]), torch.tensor([[[1.0, 4.0], [2.0, 3.0]]])
    loss = LogTopK(k=2, wide=2.0, narrow=0.5).at(0.5, 0)  # width 1
    level = [math.log(v + TOP_K_FLOOR) for v in (1, 4, 2, 3)]
    above = [sigmoid(v - level[3]) for v in level]  # the second largest value is 3
    by_hand = above[2] + above[3] - above[0] - above[1]
    assert float(loss.distance(shown, loss.remember(clean))) == pytest.approx(by_hand, abs=1e-6)


def test_soft_kendall_by_hand() -> None:
    clean, shown = torch.tensor([[[4.0, 3.0, 3.0]]]), torch.tensor([[[1.0, 2.0, 5.0]]])
    loss = SoftKendall(wide=1.0, narrow=1.0)
    level = [math.log(v + KENDALL_FLOOR) for v in (1, 2, 5)]
    # distance 1 has the pairs 0-1 and 1-2, of which the second is tied in the clean map; distance 2 has the pair 0-2
    pairs = -math.tanh(level[1] - level[0]) + 0 - math.tanh(level[2] - level[0])
    found = float(loss.distance(shown, loss.remember(clean)))
    assert abs(found + pairs / 3) < 1e-6


def test_one_distance_stands_for_its_band() -> None:
    clean, shown = torch.tensor([[[5.0, 1.0, 4.0, 2.0, 3.0]]]), torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    loss = SoftKendall(wide=1e-6, narrow=1e-6, bands=1)  # distances 1 to 4; step 0 takes 1 + floor(0.5 * 4) = 3
    # pairs 0-3 (5 and 2: reversed) and 1-4 (1 and 3: kept), times four distances, over ten pairs
    assert float(loss.distance(shown, loss.remember(clean))) == pytest.approx(4 * (1 - 1) / 10)
    # step 1 takes 1 + floor(frac(0.5 + 0.618) * 4) = 1: reversed, kept, reversed, kept
    assert float(loss.at(0.0, 1).distance(shown, loss.remember(clean))) == pytest.approx(4 * (2 - 2) / 10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_narrow_losses_order_maps_as_the_metrics_do(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    clean, first, second = (torch.rand(1, 5, 5, generator=generator) + 0.1 for _ in range(3))
    top_k = LogTopK(k=5, wide=1e-4, narrow=1e-4)
    gap = [float(top_k_intersection(clean, shown, k=5)) for shown in (first, second)]
    found = [float(top_k.distance(shown, top_k.remember(clean))) for shown in (first, second)]
    assert (gap[0] < gap[1]) <= (found[0] > found[1])
    ranks = SoftKendall(wide=1e-6, narrow=1e-6, bands=1000)  # all pairs
    tau = [float(kendall_tau(clean, shown)) for shown in (first, second)]
    soft = [-float(ranks.distance(shown, ranks.remember(clean))) for shown in (first, second)]
    assert soft == pytest.approx(tau, abs=1e-5)


def test_unchanged_maps_are_the_minimum() -> None:
    clean = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0))
    other = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(1))
    for loss in (LogTopK(k=6), SoftKendall()):
        kept = loss.remember(clean)
        assert bool((loss.distance(clean, kept) < loss.distance(other, kept)).all())
