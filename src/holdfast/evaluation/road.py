"""ROAD: remove pixels by noisy linear imputation and watch the probability (Rong, Leemann et al. 2022).

A black or grey square tells the network that something was removed. ROAD replaces each removed pixel by the weighted
mean of its eight neighbours, 1/6 for the direct and 1/12 for the diagonal ones, where neighbours that were removed too
are unknowns of the same linear system, and adds a little noise.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast import rng
from holdfast.errors import expected
from holdfast.evaluation.curves import places, probability
from holdfast.types import Model

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
NOISE = 0.01
TOLERANCE = 1e-10

_WEIGHTS = torch.tensor([[1.0, 2.0, 1.0], [2.0, 0.0, 2.0], [1.0, 2.0, 1.0]], dtype=torch.float64) / 12


@torch.no_grad()
def road(
    model: Model,
    x: Tensor,
    y: Tensor,
    maps: Tensor,
    *,
    keys: Tensor,
    most_first: bool,
    shares: Sequence[float] = SHARES,
    noise: float = NOISE,
) -> Tensor:
    """Mean probability of y [B] over `shares` of removed pixels of x [B, C, H, W], ranked by `maps` [B, H, W].

    With `most_first` (MoRF) the largest pixels are removed and a low value is good; otherwise (LeRF) the smallest are
    removed and a high value is good. The noise depends on `keys` and the share only.

    >>> dark = lambda x: torch.stack([x.flatten(1)[:, 0], -x.flatten(1)[:, 0]], 1)
    >>> x, maps = torch.tensor([[[[1.0, 0.0, 0.0]]]]), torch.tensor([[[9.0, 1.0, 0.0]]])
    >>> road(dark, x, torch.tensor([0]), maps, keys=torch.tensor([7]), most_first=True, shares=(0.4,), noise=0.0)
    tensor([0.5000], dtype=torch.float64)
    """
    bad = [share for share in shares if not 0 < share < 1]
    if bad or not shares:
        raise expected("shares of removed pixels between 0 and 1", got=list(shares))
    place, pixels = places(maps), maps.shape[1] * maps.shape[2]
    if not most_first:
        place = pixels - 1 - place
    found = []
    for number, share in enumerate(shares):
        removed = (place < int(pixels * share + 1e-9)).reshape(maps.shape)
        filled = impute(x, removed)
        filled = torch.where(removed[:, None], filled + noise * rng.normal(keys, x, stream=number), x)
        found.append(probability(model, filled, y))
    return torch.stack(found).mean(0).double()


@torch.no_grad()
def impute(x: Tensor, removed: Tensor, *, tolerance: float = TOLERANCE) -> Tensor:
    """Replace the pixels of x [B, C, H, W] marked in `removed`, bool [B, H, W], by the mean of their neighbours.

    Solves d_i v_i = sum_j w_ij v_j for all removed pixels i at once, where j are the neighbours inside the image and
    d_i is the sum of their weights. The matrix is symmetric and positive definite as long as one pixel is left, so the
    conjugate gradient method with the diagonal as preconditioner solves it, for all images and channels at once. An
    image stops moving when its own residual is small, so its result does not depend on the batch.

    >>> impute(torch.tensor([[[[0.0, 5.0, 1.0]]]]), torch.tensor([[[False, True, False]]])).tolist()
    [[[[0.0, 0.5, 1.0]]]]
    """
    if removed.dtype != torch.bool or removed.shape != (x.shape[0], *x.shape[2:]):
        got = f"{removed.dtype} {list(removed.shape)}"
        raise expected(f"bool marks {[x.shape[0], *x.shape[2:]]}, one per pixel", got=got)
    if bool(removed.flatten(1).all(1).any()):
        raise expected("at least one pixel of each image that is not removed", got="an image without any")
    marks = removed[:, None].double()
    known = x.double() * (1 - marks)
    degree = _neighbours(torch.ones_like(known[:1, :1]))
    target = marks * _neighbours(known)
    solution, residual = torch.zeros_like(known), target
    search = scaled = residual / degree
    fit = _dot(residual, scaled)
    goal = tolerance**2 * fit
    for _ in range(x.shape[2] * x.shape[3]):  # exact arithmetic needs at most one step per unknown
        active = fit > goal
        if not bool(active.any()):
            break
        image = marks * (degree * search - _neighbours(search))
        step = torch.where(active, fit / _dot(search, image), 0)
        solution, residual = solution + step * search, residual - step * image
        scaled = residual / degree
        better = torch.where(active, _dot(residual, scaled), fit)
        search = torch.where(active, scaled + better / fit * search, search)
        fit = better
    return (known + solution).to(x.dtype)


def _neighbours(x: Tensor) -> Tensor:
    """The weighted sum of the eight neighbours of each pixel of [B, C, H, W]; nothing beyond the border."""
    kernel = _WEIGHTS.to(x.device)[None, None]
    return F.conv2d(x.flatten(0, 1)[:, None], kernel, padding=1).reshape(x.shape)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each channel of each image, [B, C, 1, 1]."""
    return (a * b).sum((2, 3), keepdim=True)
