"""Quadrature rules that turn the path integral of integrated gradients into a weighted sum of m gradients.

Each rule maps m to (points t_j in [0, 1], weights w_j). The weights sum to 1.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import expected

Rule = Callable[[int], tuple[np.ndarray, np.ndarray]]


def right(m: int) -> tuple[np.ndarray, np.ndarray]:
    """t_k = k/m, k = 1 ... m (Eq. 1 of the paper): excludes the baseline, includes the image."""
    return np.arange(1, m + 1) / m, np.full(m, 1 / m)


def left(m: int) -> tuple[np.ndarray, np.ndarray]:
    """t_k = k/m, k = 0 ... m - 1."""
    return np.arange(m) / m, np.full(m, 1 / m)


def midpoint(m: int) -> tuple[np.ndarray, np.ndarray]:
    """t_k = (k - 1/2)/m, k = 1 ... m."""
    return (np.arange(m) + 0.5) / m, np.full(m, 1 / m)


def trapezoid(m: int) -> tuple[np.ndarray, np.ndarray]:
    """m points from 0 to 1, both ends with half weight; m = 1 gives the midpoint."""
    if m == 1:
        return midpoint(1)
    weights = np.full(m, 1 / (m - 1))
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, m), weights


def gauss_legendre(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact for polynomials of degree 2m - 1; no better than the midpoint rule across the kinks of ReLU networks."""
    points, weights = np.polynomial.legendre.leggauss(m)
    return (points + 1) / 2, weights / 2


RULES: Mapping[str, Rule] = {
    "right": right,
    "left": left,
    "midpoint": midpoint,
    "trapezoid": trapezoid,
    "gauss-legendre": gauss_legendre,
}


def nodes(rule: str, m: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and weights [m] of a rule, with the dtype and device of `like`."""
    if rule not in RULES:
        raise expected(f"rule to be one of {', '.join(RULES)}", got=repr(rule))
    if m < 1:
        raise expected("at least one point on the path", got=m)
    points, weights = (torch.as_tensor(v, dtype=like.dtype, device=like.device) for v in RULES[rule](m))
    return points, weights


def inverse_moment(rule: str, m: int) -> float | None:
    """sum_j w_j / t_j (for the right rule H_m = 1 + 1/2 + ... + 1/m); None if a point lies at 0."""
    points, weights = RULES[rule](m)
    return None if points.min() <= 0 else float((weights / points).sum())
