"""The functions of PyTorch with the kink of a ReLU, and how a surrogate replaces all of them by one smooth form."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Kink(Protocol):
    """The smooth form of a ReLU with a leak, for one setting of the surrogate: its sharpness or its width."""

    def __call__(self, z: Tensor, setting: float, /, leak: float | Tensor = 0.0, inplace: bool = False) -> Tensor: ...


def relu_functions(kink: Kink) -> Mapping[Callable[..., Any], Callable[..., Tensor]]:
    """Function of PyTorch -> its form built from `kink`, called with the setting of the surrogate before its arguments.

    `nn.ReLU` and related modules call one of these functions.
    """

    def relu(setting: float, z: Tensor, inplace: bool = False) -> Tensor:
        return kink(z, setting, inplace=inplace)

    def relu_(setting: float, z: Tensor) -> Tensor:
        return kink(z, setting, inplace=True)

    def leaky_relu(setting: float, z: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
        return kink(z, setting, float(negative_slope), inplace)

    def leaky_relu_(setting: float, z: Tensor, negative_slope: float = 0.01) -> Tensor:
        return leaky_relu(setting, z, negative_slope, inplace=True)

    def prelu(setting: float, z: Tensor, weight: Tensor) -> Tensor:
        leak = weight if weight.numel() == 1 else weight.reshape(1, -1, *([1] * (z.dim() - 2)))
        return kink(z, setting, leak)

    def hardtanh(
        setting: float, z: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
    ) -> Tensor:
        source = z.clone() if inplace else z  # the backward pass needs the input, which is about to be overwritten
        value = min_val + kink(source - min_val, setting) - kink(source - max_val, setting)
        return z.copy_(value) if inplace else value

    def relu6(setting: float, z: Tensor, inplace: bool = False) -> Tensor:
        return hardtanh(setting, z, 0.0, 6.0, inplace)

    return {
        F.relu: relu,
        torch.relu: relu,
        Tensor.relu: relu,
        F.relu_: relu_,
        torch.relu_: relu_,
        Tensor.relu_: relu_,
        F.relu6: relu6,
        F.hardtanh: hardtanh,
        F.leaky_relu: leaky_relu,
        F.leaky_relu_: leaky_relu_,
        F.prelu: prelu,
        torch.prelu: prelu,
        Tensor.prelu: prelu,
    }
