"""The softplus surrogate: any ReLU network with softplus activations, without editing the network.

A ReLU network is piecewise linear, so the derivative of its gradient is zero almost everywhere and an attack on the
gradient has no direction to follow. Ghorbani et al. (2019) and Dombrowski et al. (2019) attack a surrogate that shares
the weights but has

    relu_a(z)  ->  a z + (1 - a) softplus_beta(z),      softplus_beta(z) = log(1 + exp(beta z)) / beta,

with leak a (0 for the plain ReLU). As beta grows the surrogate converges to the network:
|difference| <= log(2) / beta at every activation.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.engine.smooth_kinks import softplus_relu
from holdfast.errors import expected

Smoothed = Callable[..., Tensor]


def soft_relu(z: Tensor, beta: float, leak: float | Tensor = 0.0) -> Tensor:
    """a z + (1 - a) softplus_beta(z), the smooth form of the ReLU with leak a."""
    if isinstance(leak, Tensor):  # of a PReLU, where it may be trained
        return leak * z + (1 - leak) * F.softplus(z, beta=beta)
    return softplus_relu(z, beta, leak)


def _relu(beta: float, z: Tensor, inplace: bool = False) -> Tensor:
    return softplus_relu(z, beta, inplace=inplace)


def _relu_(beta: float, z: Tensor) -> Tensor:
    return _relu(beta, z, inplace=True)


def _leaky_relu(beta: float, z: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return softplus_relu(z, beta, float(negative_slope), inplace=inplace)


def _leaky_relu_(beta: float, z: Tensor, negative_slope: float = 0.01) -> Tensor:
    return _leaky_relu(beta, z, negative_slope, inplace=True)


def _prelu(beta: float, z: Tensor, weight: Tensor) -> Tensor:
    leak = weight if weight.numel() == 1 else weight.reshape(1, -1, *([1] * (z.dim() - 2)))
    return soft_relu(z, beta, leak)


def _hardtanh(beta: float, z: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    source = _source(z, inplace)
    return _deliver(min_val + soft_relu(source - min_val, beta) - soft_relu(source - max_val, beta), z, inplace)


def _relu6(beta: float, z: Tensor, inplace: bool = False) -> Tensor:
    return _hardtanh(beta, z, 0.0, 6.0, inplace)


def _source(z: Tensor, inplace: bool) -> Tensor:
    # softplus needs its input for the backward pass, so an input that will be overwritten is copied.
    return z.clone() if inplace else z


def _deliver(value: Tensor, z: Tensor, inplace: bool) -> Tensor:
    return z.copy_(value) if inplace else value


SMOOTH_FORMS: Mapping[Callable[..., Any], Smoothed] = {
    F.relu: _relu,
    torch.relu: _relu,
    Tensor.relu: _relu,
    F.relu_: _relu_,
    torch.relu_: _relu_,
    Tensor.relu_: _relu_,
    F.relu6: _relu6,
    F.hardtanh: _hardtanh,
    F.leaky_relu: _leaky_relu,
    F.leaky_relu_: _leaky_relu_,
    F.prelu: _prelu,
    torch.prelu: _prelu,
    Tensor.prelu: _prelu,
}
"""All functions that apply a ReLU in PyTorch; `nn.ReLU` and related modules call one of them."""


class softplus_surrogate(TorchFunctionMode):  # noqa: N801  (used like a function: `with softplus_surrogate(beta=1.0):`)
    """Inside this context every ReLU, leaky ReLU, PReLU, ReLU6 and hard tanh is its softplus form of sharpness `beta`.

    The context intercepts PyTorch function calls, so it covers modules, functional calls and in-place calls of any
    network. `swapped` counts the replaced calls, so a caller can detect a network without such activations. Compiled
    code (TorchScript) is not intercepted; neither is `clamp(min=0)`, which is arithmetic, not an activation.

    >>> with softplus_surrogate(beta=1.0) as surrogate:
    ...     y = torch.relu(torch.zeros(1))
    >>> round(float(y), 4), surrogate.swapped
    (0.6931, 1)
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        if not beta > 0:
            raise expected("beta > 0", got=beta, fix="a larger beta is closer to the ReLU; the reference attack uses 1")
        self.beta = beta
        self.swapped = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        form = SMOOTH_FORMS.get(func)
        if form is None:
            return func(*args, **(kwargs or {}))
        self.swapped += 1
        return form(self.beta, *args, **(kwargs or {}))


def surrogate_or_network(beta: float | None) -> softplus_surrogate | nullcontext[None]:
    """A context in which the network is its softplus surrogate with sharpness `beta`, or itself for None."""
    return nullcontext() if beta is None else softplus_surrogate(beta)
