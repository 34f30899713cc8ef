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

_NEIGHBOURS = tuple(
    (down, right, 1 / 12 if down and right else 1 / 6)
    for down in (-1, 0, 1)
    for right in (-1, 0, 1)
    if (down, right) != (0, 0)
)
"""Place of each neighbour, as steps down and right, and its weight."""


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
def impute(x: Tensor, removed: Tensor) -> Tensor:
    """Replace the pixels of x [B, C, H, W] marked in `removed`, bool [B, H, W], by the mean of their neighbours.

    Solves d_i v_i = sum_j w_ij v_j for all removed pixels i at once, where j are the neighbours inside the image and
    d_i is the sum of their weights. The matrix of an image is symmetric and positive definite as long as one pixel is
    left. SciPy factorises it, in double precision on the CPU, for all channels at once. Images follow one another: one
    block-diagonal matrix for all of them takes twice as long.

    >>> impute(torch.tensor([[[[0.0, 5.0, 1.0]]]]), torch.tensor([[[False, True, False]]])).tolist()
    [[[[0.0, 0.5, 1.0]]]]
    """
    if removed.dtype != torch.bool or removed.shape != (x.shape[0], *x.shape[2:]):
        got = f"{removed.dtype} {list(removed.shape)}"
        raise expected(f"bool marks {[x.shape[0], *x.shape[2:]]}, one per pixel", got=got)
    if bool(removed.flatten(1).all(1).any()):
        raise expected("at least one pixel of each image that is not removed", got="an image without any")
    known = x.double() * ~removed[:, None]
    target = _sum_of_neighbours(known)
    filled = [_solution(marks, target[i][:, marks]) for i, marks in enumerate(removed)]
    return known.movedim(1, -1).index_put((removed,), torch.cat(filled).to(known)).movedim(-1, 1).to(x.dtype)


def _solution(removed: Tensor, target: Tensor) -> Tensor:
    """The values [U, C] of the unknowns of one image, the pixels marked in `removed` [H, W], for `target` [C, U]."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    removed, count = removed.cpu(), target.shape[1]
    if not count:
        return target.T.cpu()
    unknown = torch.full(removed.shape, -1)
    unknown[removed] = torch.arange(count)
    unknown = F.pad(unknown, (1, 1, 1, 1), value=-1)
    degree = _sum_of_neighbours(torch.ones(1, 1, *removed.shape, dtype=torch.float64))[0, 0]
    rows, columns, values = [torch.arange(count)], [torch.arange(count)], [degree[removed]]
    for down, right, weight in _NEIGHBOURS:
        there = _moved(unknown, down, right)[removed]
        (row,) = (there >= 0).nonzero(as_tuple=True)
        rows.append(row)
        columns.append(there[row])
        values.append(torch.full((len(row),), -weight, dtype=torch.float64))
    entries = torch.cat(values).numpy(), (torch.cat(rows).numpy(), torch.cat(columns).numpy())
    matrix = csc_array(entries, shape=(count, count))
    options = {"SymmetricMode": True}
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    return torch.from_numpy(factors.solve(target.T.cpu().numpy()))


def _sum_of_neighbours(x: Tensor) -> Tensor:
    """The weighted sum of the eight neighbours of each pixel of [B, C, H, W]; nothing beyond the border."""
    padded = F.pad(x, (1, 1, 1, 1))
    return sum((weight * _moved(padded, down, right) for down, right, weight in _NEIGHBOURS), torch.zeros_like(x))


def _moved(padded: Tensor, down: int, right: int) -> Tensor:
    """For each pixel of an image, its neighbour so many steps down and right; `padded` has a border of one pixel."""
    height, width = padded.shape[-2] - 2, padded.shape[-1] - 2
    return padded[..., 1 + down : 1 + down + height, 1 + right : 1 + right + width]
