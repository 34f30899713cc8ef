"""Quality of maps. A constant map cannot be changed by an attack, so robustness alone is not enough.

agreement         Spearman's rho with the maps of a naturally trained network (the paper's quality table)
insertion         mean probability of y while the top pixels are inserted into a black image; high is good
deletion          mean probability of y while the top pixels are deleted; low is good
completeness      |sum of the map - (s(x) - s(x0))| relative to |s(x) - s(x0)|
randomised        Spearman's rho with the map of the same network with shuffled weights; low is good (integrated
                  gradients are zero at black pixels for any weights, so rho does not come near 0 on digits)
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast import metrics, rng
from holdfast.attribution.base import GradientMap
from holdfast.attribution.saliency import map_of
from holdfast.attribution.scores import true_probability
from holdfast.engine.gradients import check_logits, images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.ops import flatten
from holdfast.engine.parallel import slices
from holdfast.errors import expected
from holdfast.types import Attribution, Model


@dataclass(frozen=True)
class Quality:
    """One number per example, [B]. `agreement` is None without a natural network, `completeness` is None without IG."""

    insertion: Tensor
    deletion: Tensor
    randomised: Tensor
    agreement: Tensor | None = None
    completeness: Tensor | None = None


@torch.no_grad()
def map_quality(
    model: nn.Module, x: Tensor, y: Tensor, attribution: Attribution, *, natural: Model | None = None, seed: int = 0
) -> Quality:
    """Compute all quality measures of the maps of `model` for one batch."""
    with evaluating(model):
        maps = map_of(model, x, y, attribution)
        insertion, deletion = (probability_curve(model, x, y, maps, insert=way) for way in (True, False))
        shuffled = shuffled_weights(model, seed)
        with evaluating(shuffled):
            randomised = metrics.spearman_rho(maps, map_of(shuffled, x, y, attribution))
        return Quality(
            insertion=insertion,
            deletion=deletion,
            randomised=randomised,
            agreement=None if natural is None else agreement(maps, natural, x, y, attribution),
            completeness=attribution.relative_gap(model, x, y) if isinstance(attribution, GradientMap) else None,
        )


def agreement(maps: Tensor, natural: Model, x: Tensor, y: Tensor, attribution: Attribution) -> Tensor:
    """Spearman's rho [B] between `maps` and the maps of a naturally trained network for the same images."""
    with evaluating(natural):
        return metrics.spearman_rho(maps, map_of(natural, x, y, attribution))


@torch.no_grad()
def probability_curve(
    model: Model, x: Tensor, y: Tensor, maps: Tensor, *, insert: bool, points: int = 21, baseline: float = 0.0
) -> Tensor:
    """Area under the curve of the probability of y [B] while the top pixels are inserted, or deleted, in steps.

    The area is computed by the trapezoid rule over `points` equally spaced shares of pixels from 0 to 1 (Petsiuk et al.
    2018). All pixels of one step change at once; pixels with equal values are ordered by position.
    """
    if points < 2:
        raise expected("points >= 2", got=points)
    place = flatten(maps).argsort(dim=1, descending=True, stable=True).argsort(dim=1)  # 0 is the top pixel
    place = place.reshape(x.shape[0], 1, *x.shape[2:]) / place.shape[1]
    heights = []
    for share in torch.linspace(0, 1, points).tolist():
        top = place < share
        heights.append(_probability(model, torch.where(top == insert, x, baseline), y))
    curve = torch.stack(heights)
    return ((curve[1:] + curve[:-1]) / 2).mean(0).double()


def _probability(model: Model, x: Tensor, y: Tensor) -> Tensor:
    parts = slices(x.shape[0], images_per_pass(x))
    return torch.cat([true_probability(check_logits(model(x[p]), x[p]), y[p]) for p in parts])


def shuffled_weights(model: nn.Module, seed: int) -> nn.Module:
    """A copy of the network with the entries of every parameter in keyed random order; shapes stay the same."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for number, parameter in enumerate(other.parameters()):
            flat = parameter.reshape(1, -1)
            key = rng.make_keys(seed, torch.tensor([number], device=parameter.device))
            order = rng.uniform(key, flat.double()).argsort(dim=1)
            parameter.copy_(flat.gather(1, order).reshape(parameter.shape))
    return other
