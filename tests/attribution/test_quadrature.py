"""Quadrature rules: by hand, and exact where they must be."""

import numpy as np
import pytest
import torch

from holdfast.attribution.quadrature import RULES, inverse_moment, nodes
from holdfast.errors import InputError


def test_points_by_hand() -> None:
    by_hand = {
        "right": ([0.25, 0.5, 0.75, 1], [0.25] * 4),
        "left": ([0, 0.25, 0.5, 0.75], [0.25] * 4),
        "midpoint": ([0.125, 0.375, 0.625, 0.875], [0.25] * 4),
        "trapezoid": ([0, 1 / 3, 2 / 3, 1], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    }
    for rule, (points, weights) in by_hand.items():
        np.testing.assert_allclose(RULES[rule](4), (points, weights))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("m", [1, 2, 7, 50])
def test_weights_sum_to_one_and_points_stay_on_the_path(rule: str, m: int) -> None:
    points, weights = RULES[rule](m)
    assert len(points) == len(weights) == m
    assert weights.sum() == pytest.approx(1)
    assert points.min() >= 0
    assert points.max() <= 1


@pytest.mark.parametrize(
    ("rule", "degree"), [("right", 0), ("left", 0), ("midpoint", 1), ("trapezoid", 1), ("gauss-legendre", 7)]
)
def test_exact_up_to_its_degree(rule: str, degree: int) -> None:
    points, weights = RULES[rule](4)
    for power in range(degree + 1):
        assert (weights * points**power).sum() == pytest.approx(1 / (power + 1))


def test_harmonic_number() -> None:
    assert inverse_moment("right", 4) == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4)
    assert inverse_moment("left", 4) is None
    assert inverse_moment("trapezoid", 4) is None


def test_bad_rules_are_refused() -> None:
    with pytest.raises(InputError, match="gauss-legendre"):
        nodes("simpson", 5, torch.empty(0))
    with pytest.raises(InputError, match="at least one point"):
        nodes("right", 0, torch.empty(0))
