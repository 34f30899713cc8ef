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
"""Name -> quadrature rule: the points in [0, 1] and weights of integrated gradients for a number of steps."""


GOLDEN = (5**0.5 - 1) / 2
"""Multiples of this number, modulo 1, cover [0, 1] evenly."""

_SHIFTED = "shifted by "


def shifted(by: float) -> str:
    """The rule t_k = (k + by) / m, k = 0 ... m - 1, with 0 <= by < 1: `left` for 0, `midpoint` for 1/2."""
    return f"{_SHIFTED}{by!r}"


def _rule(name: str) -> Rule:
    if name.startswith(_SHIFTED):
        by = float(name.removeprefix(_SHIFTED))
        return lambda m: ((np.arange(m) + by) / m, np.full(m, 1 / m))
    if name not in RULES:
        raise expected(f"rule to be one of {', '.join(RULES)}", got=repr(name))
    return RULES[name]


def nodes(rule: str, m: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and weights [m] of a rule, with the dtype and device of `like`."""
    if m < 1:
        raise expected("at least one point on the path", got=m)
    points, weights = (torch.as_tensor(v, dtype=like.dtype, device=like.device) for v in _rule(rule)(m))
    return points, weights


def last_point(rule: str, m: int) -> float:
    """The last point of a rule."""
    return float(_rule(rule)(m)[0][-1])


def first_point(rule: str, m: int) -> float:
    """The smallest point of a rule."""
    return float(_rule(rule)(m)[0].min())


def inverse_moment(rule: str, m: int) -> float | None:
    """sum_j w_j / t_j (for the right rule H_m = 1 + 1/2 + ... + 1/m); None if a point lies at 0."""
    points, weights = _rule(rule)(m)
    return None if points.min() <= 0 else float((weights / points).sum())
