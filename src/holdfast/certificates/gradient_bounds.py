"""Interval bounds of the input gradient over a box of images (Wicker et al. 2023): no sampling, no probability.

First the interval of every activation over the box is propagated forwards. A ReLU has the derivative 1 where its input
is always positive, 0 where it is never positive, and anything in [0, 1] elsewhere. Then the interval of the gradient of
the logit is propagated backwards. For an affine layer an interval with centre c and radius r becomes

    W c + b, |W| r  forwards,   W^T c, |W|^T r  backwards.

The bounds are exact for linear networks and become loose with depth. They are computed in float64; rounding errors are
not bounded.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.certificates.sequential import Affine, Function, Step, steps_of
from holdfast.certificates.top_k_overlap import overlap_margins
from holdfast.engine.checks import check_images, check_labels
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.ops import flatten
from holdfast.engine.parallel import slices
from holdfast.errors import expected
from holdfast.metrics.top_k import top_k_mask
from holdfast.types import Model


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientBounds:
    """Bounds of the gradient of the true logit, float64 [B, C, H, W], for all images within `eps` at every pixel."""

    lower: Tensor
    upper: Tensor
    eps: float

    @property
    def map_lower(self) -> Tensor:
        """The smallest value of the map |gradient| summed over channels, at every pixel, [B, H, W]."""
        return torch.maximum(self.lower, -self.upper).clamp_min(0).sum(1)

    @property
    def map_upper(self) -> Tensor:
        """The largest value of the map at every pixel, [B, H, W]."""
        return torch.maximum(-self.lower, self.upper).sum(1)

    def outranks(self, i: int, j: int) -> Tensor:
        """bool [B]: pixel i has a larger map value than pixel j everywhere in the box (positions in [0, H W))."""
        return flatten(self.map_lower)[:, i] > flatten(self.map_upper)[:, j]

    @property
    def ordered_pairs(self) -> Tensor:
        """Share of all pairs of pixels whose order in the map is certified, float64 [B]."""
        low, high = flatten(self.map_lower), flatten(self.map_upper).sort(dim=1).values
        below = torch.searchsorted(high, low.contiguous())  # for each pixel, the number of pixels it outranks
        pixels = low.shape[1]
        return below.sum(1).double() / max(1, pixels * (pixels - 1) // 2)

    def kept(self, clean_map: Tensor, k: int) -> Tensor:
        """Certified share of the top k pixels of the clean map [B, H, W] that stay in the top k, float64 [B]."""
        inside = top_k_mask(clean_map.cpu(), k)
        margins = overlap_margins(flatten(self.map_lower).cpu(), flatten(self.map_upper).cpu(), inside)
        return (margins > 0).double().mean(1)


@torch.no_grad()
def gradient_bounds(model: Model, x: Tensor, y: Tensor, eps: float) -> GradientBounds:
    """Bounds of grad_x z_y over all images in [0, 1] within `eps` of x at every pixel, for a sequential ReLU network.

    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> for layer, weight in ((net[1], [[1.0, 2.0], [1.0, -1.0]]), (net[3], [[1.0, 3.0]])):
    ...     layer.weight.data, layer.bias.data = torch.tensor(weight), torch.zeros(len(weight))
    >>> found = gradient_bounds(net, torch.tensor([[[[0.5, 0.5]]]]), torch.tensor([0]), eps=0.25)
    >>> found.lower.flatten().tolist(), found.upper.flatten().tolist()
    ([1.0, -1.0], [4.0, 2.0])
    """
    check_images(x)
    check_labels(y, x.shape[0])
    if not 0 <= eps < float("inf"):
        raise expected("eps >= 0", got=eps)
    steps = steps_of(model)
    found = [_bounds(steps, x[part].double(), y[part], eps) for part in slices(x.shape[0], images_per_pass(x))]
    lower, upper = (torch.cat(ends) for ends in zip(*found, strict=True))
    return GradientBounds(lower=lower, upper=upper, eps=eps)


def _bounds(steps: list[Step], x: Tensor, y: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    centre, radius, seen = _forward(steps, (x - eps).clamp_min(0), (x + eps).clamp_max(1))
    check_labels(y, x.shape[0], centre.shape[1])
    centre = F.one_hot(y, centre.shape[1]).to(centre)
    return _backward(steps, seen, centre, torch.zeros_like(radius))


def _forward(steps: list[Step], lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Centre and radius of the logits, and the lower and upper bounds of the input of every step."""
    seen = []
    for step in steps:
        seen.append((lower, upper))
        if isinstance(step, Affine):
            centre, radius = step.whole((lower + upper) / 2), step.absolute((upper - lower) / 2)
            lower, upper = centre - radius, centre + radius
        else:
            lower, upper = lower.clamp_min(0), upper.clamp_min(0)
    return (lower + upper) / 2, (upper - lower) / 2, seen


def _backward(
    steps: list[Step], seen: list[tuple[Tensor, Tensor]], centre: Tensor, radius: Tensor
) -> tuple[Tensor, Tensor]:
    """Bounds of the gradient in the input, from centre and radius of the gradient in the logits."""
    lower, upper = centre - radius, centre + radius
    for step, (low, high) in zip(reversed(steps), reversed(seen), strict=True):
        if isinstance(step, Affine):
            centre = _transposed(step.linear, low, (lower + upper) / 2)
            radius = _transposed(step.absolute, low, (upper - lower) / 2)
            lower, upper = centre - radius, centre + radius
        else:
            least, most = (low > 0).to(low), (high > 0).to(low)  # the smallest and the largest derivative
            lower = torch.where(lower < 0, lower * most, lower * least)
            upper = torch.where(upper > 0, upper * most, upper * least)
    return lower, upper


def _transposed(function: Function, like: Tensor, v: Tensor) -> Tensor:
    """W^T v for the linear function w -> W w of tensors shaped like `like`."""
    with torch.enable_grad():
        start = torch.zeros_like(like).requires_grad_()
        (found,) = torch.autograd.grad(function(start), start, v)
    return found
