"""Soft stability: how often a prediction from the most important patches survives when more patches are shown.

The image is cut into patches, and only the most important ones, the set a, are shown; the others are black. With s the
shown set, the stability rate for radius r is (Jin et al. 2025)

    tau_r = P[ argmax f(x * s) = argmax f(x * a) ],   s uniform over all supersets of a with at most r more patches.

It is estimated from N samples. It needs forward passes only, and suits any network and any map.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.engine.checks import check_images, check_keys
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.parallel import slices
from holdfast.engine.predictions import predictions
from holdfast.errors import expected
from holdfast.metrics.top_k import top_k_mask
from holdfast.types import Model


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftStability:
    """The estimated stability rate of each example, float64 [B].

    The true rate differs from it by more than `error` with probability at most `doubt`, for each example.
    """

    rate: Tensor
    samples: int
    error: float
    doubt: float
    grid: int
    shown: int
    radius: int

    @property
    def at_least(self) -> Tensor:
        """A lower bound on the rate [B], which holds with probability at least 1 - `doubt`."""
        return (self.rate - self.error).clamp_min(0)


def soft_stability(
    model: Model,
    x: Tensor,
    maps: Tensor,
    *,
    keys: Tensor,
    grid: int | None = None,
    share: float = 0.25,
    radius: int | None = None,
    error: float = 0.1,
    doubt: float = 0.1,
    fill: float = 0.0,
) -> SoftStability:
    """The stability rate of images x for maps [B, H, W], on a `grid` x `grid` of patches.

    The `share` of patches with the largest sums of the map is shown. `radius` is the number of patches that may be
    added, by default a quarter of all. `fill` is the value of hidden pixels.

    >>> bright = lambda x: torch.stack([x.flatten(1).sum(1), x.new_full((x.shape[0],), 0.5)], 1)
    >>> x = torch.ones(1, 1, 8, 8)
    >>> soft_stability(bright, x, x[:, 0], keys=torch.arange(1))
    SoftStability(rate=tensor([1.], dtype=torch.float64), samples=150, error=0.1, doubt=0.1, grid=4, shown=4, radius=4)
    """
    check_images(x)
    check_keys(keys, x.shape[0])
    cells = patches(x.shape[2], x.shape[3], grid or default_grid(min(x.shape[2:]))).to(x.device)
    count = int(cells.max()) + 1
    shown = max(1, round(share * count))
    most = min(count // 4 if radius is None else radius, count - shown)
    if not 0 < share <= 1 or most < 0:
        raise expected("0 < share <= 1 and radius >= 0", got=f"share = {share}, radius = {radius}")
    amount = torch.zeros(x.shape[0], count, dtype=maps.dtype, device=x.device)
    amount = amount.index_add(1, cells.flatten(), maps.to(x.device).flatten(1))
    chosen = top_k_mask(amount, shown)
    samples = sample_size(error, doubt)
    with evaluating(model):
        before = _labels(model, x, chosen[:, None], cells, fill)
        same = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
        for part in slices(samples, max(1, images_per_pass(x) // max(1, x.shape[0]))):
            numbers = torch.arange(part.start, part.stop, device=x.device)
            more = added_patches(chosen, rng.combine(keys[:, None], numbers), most)
            same += (_labels(model, x, chosen[:, None] | more, cells, fill) == before).sum(1)
    return SoftStability(
        rate=(same.double() / samples).cpu(),
        samples=samples,
        error=error,
        doubt=doubt,
        grid=grid or default_grid(min(x.shape[2:])),
        shown=shown,
        radius=most,
    )


def sample_size(error: float, doubt: float) -> int:
    """N = floor(ln(2 / doubt) / (2 error^2)) + 1: by Hoeffding, enough for |estimate - rate| <= error.

    >>> sample_size(0.1, 0.1), sample_size(0.05, 0.05)
    (150, 738)
    """
    if not (0 < error < 1 and 0 < doubt < 1):
        raise expected("error and doubt between 0 and 1", got=f"{error} and {doubt}")
    return math.floor(math.log(2 / doubt) / (2 * error**2)) + 1


def size_probabilities(free: int, most: int) -> Tensor:
    """P(j patches are added), j = 0 ... most, float64: proportional to the binomial coefficients C(free, j).

    Computed from logarithms of factorials, since the coefficients themselves overflow.

    >>> size_probabilities(4, 2)
    tensor([0.0909, 0.3636, 0.5455], dtype=torch.float64)
    """
    sizes = torch.arange(most + 1, dtype=torch.float64)
    return (-torch.lgamma(sizes + 1) - torch.lgamma(free - sizes + 1)).softmax(0)


def added_patches(chosen: Tensor, keys: Tensor, most: int) -> Tensor:
    """Random sets of at most `most` patches outside `chosen` [B, p], uniform over all such sets: bool [B, n, p].

    `keys` [B, n] has one key per set. The size is drawn first, then the set: the patches with the smallest random
    numbers.
    """
    flat, (examples, count) = keys.flatten(), chosen.shape
    free = count - int(chosen[0].sum())
    steps = size_probabilities(free, most).cumsum(0).to(chosen.device)
    draw = rng.uniform(flat, flat[:, None].double(), stream=1)[:, 0]
    size = torch.searchsorted(steps, draw, right=True).clamp_max(most)
    order = rng.uniform(flat, steps[:1].expand(len(flat), count)).reshape(examples, -1, count)
    place = order.masked_fill(chosen[:, None], 2.0).argsort(dim=2, stable=True).argsort(dim=2)
    return place < size.reshape(examples, -1, 1)


def patches(height: int, width: int, grid: int) -> Tensor:
    """The number of the patch of each pixel, int64 [H, W], in a `grid` x `grid` of nearly equal patches."""
    if not 1 <= grid <= min(height, width):
        raise expected(f"a grid from 1 to {min(height, width)}", got=grid)
    rows, columns = (torch.arange(side) * grid // side for side in (height, width))
    return rows[:, None] * grid + columns


def default_grid(side: int) -> int:
    """14 for images of at least 112 pixels, 7 from 14 pixels on, and patches of 2 pixels for smaller ones."""
    return 14 if side >= 112 else 7 if side >= 14 else max(1, side // 2)


def _labels(model: Model, x: Tensor, shown: Tensor, cells: Tensor, fill: float) -> Tensor:
    """Predictions [B, n] for the images with only the patches `shown` [B, n, p]."""
    visible = shown[:, :, cells][:, :, None]
    images = torch.where(visible, x[:, None], fill).flatten(0, 1)
    return predictions(model, images, images_per_pass(x)).labels.reshape(shown.shape[:2])
