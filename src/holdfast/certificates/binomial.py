"""Confidence bounds on the probability of success, from the number of successes in independent trials.

The Clopper-Pearson bounds come from SciPy's inverse of the regularised incomplete beta function. PyTorch has no such
function, and SciPy is always there: scikit-learn depends on it.
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import expected

Bound = Literal["clopper-pearson", "hoeffding"]
BOUNDS: tuple[Bound, ...] = ("clopper-pearson", "hoeffding")
"""Names of the bounds on a probability that is estimated from samples."""


def clopper_pearson_lower(successes: Tensor, trials: int, alpha: float) -> Tensor:
    """The exact lower bound: the p with P(Bin(trials, p) >= successes) = alpha; float64, shaped like `successes`.

    The true probability lies below it with probability at most `alpha`. No success gives the bound 0, and n successes
    in n trials give alpha^(1/n).

    >>> clopper_pearson_lower(torch.tensor([0, 10]), trials=10, alpha=0.05)
    tensor([0.0000, 0.7411], dtype=torch.float64)
    """
    from scipy.special import betaincinv

    _check(trials, alpha)
    counts = np.arange(1, trials + 1)
    table = torch.from_numpy(np.concatenate([[0.0], betaincinv(counts, trials - counts + 1, alpha)]))
    return table[successes.cpu()]


def clopper_pearson_upper(successes: Tensor, trials: int, alpha: float) -> Tensor:
    """The exact upper bound, by symmetry: one minus the lower bound on the probability of failure."""
    return 1 - clopper_pearson_lower(trials - successes, trials, alpha)


def hoeffding_margin(trials: int, alpha: float, comparisons: int = 1) -> float:
    """c = sqrt(ln(2 m / alpha) / (2 n)): all of m shares lie within c of their probabilities, except with `alpha`.

    >>> round(hoeffding_margin(1024, alpha=0.05, comparisons=784), 3)
    0.071
    """
    _check(trials, alpha)
    return math.sqrt(math.log(2 * comparisons / alpha) / (2 * trials))


def simultaneous_bounds(successes: Tensor, trials: int, alpha: float, bound: Bound) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds [B, P] that hold for all P probabilities of an example at once, except with `alpha`.

    Bonferroni: each of the 2 P bounds of an example has the error alpha / (2 P). Hoeffding's bounds need far more
    trials near 0 and 1, where most pixels are; they are here for comparison with the paper that uses them.
    """
    if bound == "hoeffding":
        share, margin = successes.cpu().double() / trials, hoeffding_margin(trials, alpha, successes.shape[1])
        return (share - margin).clamp_min(0), (share + margin).clamp_max(1)
    if bound != "clopper-pearson":
        raise expected(f"bound to be one of {', '.join(BOUNDS)}", got=repr(bound))
    each = alpha / (2 * successes.shape[1])
    return clopper_pearson_lower(successes, trials, each), clopper_pearson_upper(successes, trials, each)


def _check(trials: int, alpha: float) -> None:
    if trials < 1:
        raise expected("at least one trial", got=trials)
    if not 0 < alpha < 1:
        raise expected("0 < alpha < 1, the probability that a bound is wrong", got=alpha)
