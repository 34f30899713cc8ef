"""Stability of attributions under random perturbations: max-sensitivity, RIS and ROS.

All three are maxima over random samples, so they are lower bounds of the true maximum over the ball, and a search finds
more: `sensitivity` of an attacked image is the number to read beside them.

    max-sensitivity   max |A(x') - A(x)| / |A(x)|                       Yeh et al. 2019; captum's sensitivity_max
    RIS               max |(A(x) - A(x')) / A(x)| / |(x - x') / x|      Agarwal et al. 2022; as in Quantus
    ROS               max |(A(x) - A(x')) / A(x)| / |h(x) - h(x')|      the same, h are the logits

The norms are Euclidean, over pixels and channels, of the attribution as it is, with its sign. RIS and ROS divide entry
by entry, and an entry that is zero counts as `SMALLEST`. On images with black pixels they therefore reach many orders
of magnitude: compare their logarithms, and medians over images.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball, Linf
from holdfast.engine.ops import flatten
from holdfast.errors import expected
from holdfast.evaluation.curves import logits_of
from holdfast.rng import combine
from holdfast.types import Attribution, Model

CAPTUM_BALL = Linf(0.02)
"""The default of captum's sensitivity_max."""

SMALLEST = 1e-6
"""Stands for zero in a denominator; the value of Quantus."""


@dataclass(frozen=True)
class Stability:
    """The maxima over the samples, one number per example, [B]. RIS and ROS are NaN if no sample kept the label."""

    max_sensitivity: Tensor
    ris: Tensor
    ros: Tensor


@torch.no_grad()
def random_stability(
    model: Model,
    x: Tensor,
    y: Tensor,
    attribution: Attribution,
    *,
    keys: Tensor,
    ball: Ball = CAPTUM_BALL,
    samples: int = 10,
) -> Stability:
    """Max-sensitivity, RIS and ROS over `samples` uniform samples from `ball`, clipped to pixels in [0, 1].

    RIS and ROS take only samples with the predicted class of x. (Quantus returns NaN as soon as one sample changes it.)

    >>> linear = lambda x: x.flatten(1) * torch.tensor([2.0, 1.0])
    >>> from holdfast.attribution import Gradient
    >>> x, y = torch.full((1, 1, 1, 2), 0.5), torch.tensor([0])
    >>> random_stability(linear, x, y, Gradient(), keys=torch.tensor([1])).max_sensitivity  # a constant gradient
    tensor([0.], dtype=torch.float64)
    """
    if samples < 1:
        raise expected("samples >= 1", got=samples)
    before, logits = attribution(model, x, y).detach(), logits_of(model, x)
    label = logits.argmax(1)
    worst = x.new_zeros(x.shape[0], dtype=torch.float64)
    ris, ros = torch.full_like(worst, -torch.inf), torch.full_like(worst, -torch.inf)
    for number in range(samples):
        near = ball.sample(combine(keys, number), x)
        after, logits_near = attribution(model, near, y).detach(), logits_of(model, near)
        worst = torch.maximum(worst, sensitivity(before, after))
        kept = logits_near.argmax(1) == label
        ris = torch.where(kept, torch.maximum(ris, relative_input_change(before, after, x, near)), ris)
        ros = torch.where(kept, torch.maximum(ros, relative_output_change(before, after, logits, logits_near)), ros)
    found = [torch.where(value.isinf() & (value < 0), torch.nan, value) for value in (ris, ros)]
    return Stability(worst, *found)


def sensitivity(before: Tensor, after: Tensor) -> Tensor:
    """|A(x') - A(x)| / |A(x)|, [B]; an attribution that is zero everywhere is divided by 1.

    >>> sensitivity(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 5.0]]))
    tensor([0.2000], dtype=torch.float64)
    """
    size = _norm(before)
    return _norm(after.double() - before.double()) / torch.where(size == 0, 1, size)


def relative_input_change(before: Tensor, after: Tensor, x: Tensor, near: Tensor) -> Tensor:
    """The quotient of RIS for one sample, [B].

    >>> before, after = torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 2.0]])
    >>> relative_input_change(before, after, torch.tensor([[0.5, 0.5]]), torch.tensor([[0.5, 0.75]]))
    tensor([2.], dtype=torch.float64)
    """
    return _norm(_relative(before, after)) / _not_zero(_norm(_relative(x, near)))


def relative_output_change(before: Tensor, after: Tensor, logits: Tensor, logits_near: Tensor) -> Tensor:
    """The quotient of ROS for one sample, [B].

    >>> before, after = torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 2.0]])
    >>> relative_output_change(before, after, torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([0.2000], dtype=torch.float64)
    """
    return _norm(_relative(before, after)) / _not_zero(_norm(logits.double() - logits_near.double()))


def _relative(before: Tensor, after: Tensor) -> Tensor:
    return (before.double() - after.double()) / _not_zero(before.double())


def _not_zero(values: Tensor) -> Tensor:
    return torch.where(values == 0, SMALLEST, values)


def _norm(values: Tensor) -> Tensor:
    return flatten(values.double()).square().sum(1).sqrt()
