"""Sequential ReLU networks as a list of affine layers and ReLUs, for interval arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.errors import expected
from holdfast.models.classifier import Classifier
from holdfast.types import Model

Function = Callable[[Tensor], Tensor]


class ReLU:
    """max(z, 0)."""


@dataclass(frozen=True)
class Affine:
    """v -> W v + b, with the functions v -> W v and v -> |W| v; |W| has the absolute values of the entries of W."""

    whole: Function
    linear: Function
    absolute: Function


Step = Affine | ReLU


def steps_of(model: Model) -> list[Step]:
    """The layers of an `nn.Sequential`, also inside a `Classifier` or another one, in float64.

    Accepts Linear, Conv2d, AvgPool2d, AdaptiveAvgPool2d, Flatten, ReLU, Identity and Dropout (which does nothing in
    evaluation mode). Raises an error that names the first other layer.
    """
    if type(model) is Classifier:
        return [*_normalisation(model), *steps_of(model.net)]
    if type(model) is nn.Sequential:
        return [step for layer in model for step in steps_of(layer)]
    if type(model) in (nn.Identity, nn.Dropout, nn.Dropout2d):
        return []
    if type(model) is nn.ReLU:
        return [ReLU()]
    if type(model) in (nn.Flatten, nn.AvgPool2d, nn.AdaptiveAvgPool2d):
        return [Affine(model, model, model)]  # all entries of W are non-negative
    if type(model) is nn.Linear:
        return [_linear(model)]
    if type(model) is nn.Conv2d and model.padding_mode == "zeros":
        return [_conv(model)]
    raise expected(
        "an nn.Sequential of Linear, Conv2d (zero padding), AvgPool2d, AdaptiveAvgPool2d, Flatten and ReLU",
        got=type(model).__name__,
        fix="interval bounds of the gradient are implemented for these layers only",
    )


def _linear(layer: nn.Linear) -> Affine:
    weight, bias = layer.weight.detach().double(), _double(layer.bias)
    return Affine(
        lambda v: F.linear(v, weight, bias),
        lambda v: F.linear(v, weight),
        lambda v: F.linear(v, weight.abs()),
    )


def _conv(layer: nn.Conv2d) -> Affine:
    weight, bias = layer.weight.detach().double(), _double(layer.bias)

    def conv(v: Tensor, kernel: Tensor, shift: Tensor | None) -> Tensor:
        return F.conv2d(v, kernel, shift, layer.stride, layer.padding, layer.dilation, layer.groups)

    return Affine(
        lambda v: conv(v, weight, bias),
        lambda v: conv(v, weight, None),
        lambda v: conv(v, weight.abs(), None),
    )


def _normalisation(model: Classifier) -> list[Step]:
    if model.mean is None and model.std is None:
        return []
    mean, std = (_per_channel(value, default) for value, default in ((model.mean, 0.0), (model.std, 1.0)))
    return [Affine(lambda v: (v - mean) / std, lambda v: v / std, lambda v: v / std)]


def _per_channel(value: Tensor | None, default: float) -> Tensor:
    return torch.tensor(default).double() if value is None else value.double().reshape(1, -1, 1, 1)


def _double(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach().double()
