"""The softplus surrogate: any ReLU network with softplus activations, without editing the network.

A ReLU network is piecewise linear, so the derivative of its gradient is zero almost everywhere and an attack on the
gradient has no direction to follow. Ghorbani et al. (2019) and Dombrowski et al. (2019) attack a surrogate that shares
the weights but has

    relu_a(z)  ->  a z + (1 - a) softplus_beta(z),      softplus_beta(z) = log(1 + exp(beta z)) / beta,

with leak a (0 for the plain ReLU). As beta grows the surrogate converges to the network:
|difference| <= log(2) / beta at every activation.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.engine.smooth_kinks import softplus_relu
from holdfast.errors import expected
from holdfast.models.relu_functions import relu_functions


def soft_relu(z: Tensor, beta: float, leak: float | Tensor = 0.0, inplace: bool = False) -> Tensor:
    """a z + (1 - a) softplus_beta(z), the smooth form of the ReLU with leak a."""
    if isinstance(leak, Tensor):  # of a PReLU, where it may be trained
        return leak * z + (1 - leak) * F.softplus(z, beta=beta)
    return softplus_relu(z, beta, leak, inplace=inplace)


SMOOTH_FORMS = relu_functions(soft_relu)
"""All functions that apply a ReLU in PyTorch, and their softplus form."""


class softplus_surrogate(TorchFunctionMode):  # noqa: N801  (used like a function: `with softplus_surrogate(beta=1.0):`)
    """Inside this context every ReLU, leaky ReLU, PReLU, ReLU6 and hard tanh is its softplus form of sharpness `beta`.

    The context intercepts PyTorch function calls, so it covers modules, functional calls and in-place calls of any
    network. `swapped` counts the replaced calls, so a caller can detect a network without such activations. Compiled
    code (TorchScript) is not intercepted; neither is `clamp(min=0)`, which is arithmetic, not an activation.

    >>> import torch
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
