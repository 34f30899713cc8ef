"""Insertion and deletion: how the probability of the class changes while the top pixels are inserted or deleted."""

import torch
from torch import Tensor

from holdfast.attribution.scores import true_probability
from holdfast.engine.gradients import check_logits, images_per_pass
from holdfast.engine.ops import flatten
from holdfast.engine.parallel import slices
from holdfast.errors import expected
from holdfast.types import Model


@torch.no_grad()
def probability_curve(
    model: Model, x: Tensor, y: Tensor, maps: Tensor, *, insert: bool, points: int = 21, baseline: float = 0.0
) -> Tensor:
    """Area under the curve of the probability of y [B] while the top pixels are inserted, or deleted, in steps.

    The area is computed by the trapezoid rule over `points` equally spaced shares of pixels from 0 to 1 (Petsiuk et al.
    2018). All pixels of one step change at once; pixels with equal values are ordered by position. With the map of an
    attacked image as `maps`, the result is adv-insertion or adv-deletion (Joo et al. 2023): whether the attacked map
    still names the pixels that matter for x.
    """
    if points < 2:
        raise expected("points >= 2", got=points)
    place = places(maps).reshape(x.shape[0], 1, *x.shape[2:]) / flatten(maps).shape[1]
    heights = []
    for share in torch.linspace(0, 1, points).tolist():
        top = place < share
        heights.append(probability(model, torch.where(top == insert, x, baseline), y))
    curve = torch.stack(heights)
    return ((curve[1:] + curve[:-1]) / 2).mean(0).double()


def places(maps: Tensor) -> Tensor:
    """Place of each pixel in the ranking of its map, int64 [B, P]; 0 is the largest, equal pixels are in order."""
    return flatten(maps).argsort(dim=1, descending=True, stable=True).argsort(dim=1)


def probability(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """Probability of y [B], in chunks that fit into memory."""
    return true_probability(logits_of(model, x), y)


def logits_of(model: Model, x: Tensor) -> Tensor:
    """Logits [B, K], in chunks that fit into memory."""
    parts = slices(x.shape[0], images_per_pass(x))
    return torch.cat([check_logits(model(x[p]), x[p]) for p in parts])
