"""ReLUs with a smooth derivative, with hand-written first and second derivatives.

Both surrogates replace the step in the derivative of a ReLU with leak a by a sigmoid of some sharpness c:

    slope(z) = a + (1 - a) g,    g = sigmoid(c z),    slope'(z) = c (1 - a) g (1 - g).

They differ in the value: the softplus surrogate integrates the slope, the exact-value surrogate keeps the ReLU. Written
as a formula, autograd records every operation of the slope and differentiates each; here the gate is computed once, in
place, and serves both derivatives. `plain_kernels` switches to the formula.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.engine.layout import like_in_memory
from holdfast.engine.modes import kernels_are_plain

Leak = float | Tensor
"""The slope of a ReLU below zero: a number, or a tensor that broadcasts against the input."""

Value = Callable[[Tensor, Any, Any], Tensor]
"""`(z, sharpness, leak) -> value`."""

Gate = tuple[Tensor, Tensor]
"""sigmoid(c z) and the slope."""


def smooth_slope(dy: Tensor, z: Tensor, sharpness: float | Tensor, leak: Leak = 0.0) -> Tensor:
    """dy (a + (1 - a) sigmoid(c z)), differentiable in dy and z.

    >>> smooth_slope(torch.ones(2), torch.tensor([0.0, 100.0]), 1.0, leak=0.5)
    tensor([0.7500, 1.0000])
    """
    if kernels_are_plain():
        return _formula(dy, z, sharpness, leak)
    return _smooth_slope(dy, z, sharpness, leak, _gate(z.detach(), sharpness, leak))


def _smooth_slope(dy: Tensor, z: Tensor, sharpness: float | Tensor, leak: Leak, known: Gate) -> Tensor:
    found: Tensor = _SmoothSlope.apply(dy, z, sharpness, leak, known)  # type: ignore[no-untyped-call]
    return found


def softplus_relu(z: Tensor, sharpness: float, leak: float = 0.0, *, inplace: bool = False) -> Tensor:
    """a z + (1 - a) log(1 + exp(c z)) / c.

    >>> softplus_relu(torch.zeros(1), 1.0)
    tensor([0.6931])
    """
    if kernels_are_plain():
        return z.copy_(_softplus(z.clone(), sharpness, leak)) if inplace else _softplus(z, sharpness, leak)
    return _smooth_relu(z, sharpness, leak, _softplus, inplace)


def exact_relu(z: Tensor, sharpness: float | Tensor, leak: Leak = 0.0, *, inplace: bool = False) -> Tensor:
    """z above zero and a z below, with the derivative a + (1 - a) sigmoid(c z); c broadcasts against z.

    >>> exact_relu(torch.tensor([-2.0, 2.0]), 1.0, leak=0.5)
    tensor([-1.,  2.])
    """
    return _smooth_relu(z, sharpness, leak, _relu, inplace)


def deviations(z: Tensor) -> Tensor:
    """The standard deviation of each example of z [B, ...], [B].

    From the sum and the sum of squares, which the vector units compute; `Tensor.std` takes thirty times as long. Where
    the mean is so large that the difference cancels, the deviations from the mean are squared instead.

    >>> deviations(torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
    tensor([1., 0.])
    """
    if z.dim() == 4 and z.is_contiguous(memory_format=torch.channels_last):
        z = z.permute(0, 2, 3, 1)  # the order of the entries in memory, so that `flatten` copies nothing
    flat = z.flatten(1)
    if kernels_are_plain() or flat.shape[1] == 0:
        return flat.std(1, correction=0)
    mean, square = flat.mean(1), torch.linalg.vector_norm(flat, dim=1).square() / flat.shape[1]
    variance = square - mean.square()
    cancelled = variance < 1e-2 * square
    if bool(cancelled.any()):
        centred = flat[cancelled] - mean[cancelled, None]
        variance[cancelled] = torch.linalg.vector_norm(centred, dim=1).square() / flat.shape[1]
    found: Tensor = variance.sqrt()
    return found


def _formula(dy: Tensor, z: Tensor, sharpness: float | Tensor, leak: Leak) -> Tensor:
    gate = torch.sigmoid(z * sharpness)
    return dy * (gate if _is_zero(leak) else leak + (1 - leak) * gate)


def _softplus(z: Tensor, sharpness: float, leak: float) -> Tensor:
    soft = F.softplus(z, beta=sharpness)
    return soft if _is_zero(leak) else torch.add(leak * z, soft, alpha=1 - leak)


def _relu(z: Tensor, sharpness: Any, leak: Leak) -> Tensor:
    if isinstance(leak, Tensor):
        return torch.where(z > 0, z, leak * z)
    return F.relu(z) if leak == 0 else F.leaky_relu(z, leak)


def _is_zero(leak: Leak) -> bool:
    return isinstance(leak, float) and leak == 0.0


def _gate(z: Tensor, sharpness: float | Tensor, leak: Leak) -> Gate:
    gate = (z * sharpness).sigmoid_()
    if isinstance(leak, Tensor):
        return gate, leak + (1 - leak) * gate
    return gate, gate if leak == 0 else torch.add(gate.new_tensor(leak), gate, alpha=1 - leak)


class _SmoothSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dy: Tensor, z: Tensor, sharpness: float | Tensor, leak: Leak, known: Gate) -> Tensor:
        ctx.sharpness, ctx.leak = sharpness, leak
        ctx.save_for_backward(dy, z, *known)  # dy itself: a copy would cut the graph of a third derivative
        return like_in_memory(dy, z) * known[1]

    @staticmethod
    def backward(ctx: Any, ddx: Tensor) -> tuple[Tensor | None, ...]:
        dy, z, gate, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # a third derivative is wanted: differentiate the formula
            return (*_derivatives(ddx, dy, z, ctx.sharpness, ctx.leak), None, None, None)
        dz, dy, ddx = None, like_in_memory(dy, z), like_in_memory(ddx, z)
        if ctx.needs_input_grad[1]:
            dz = torch.ops.aten.sigmoid_backward(ddx * dy, gate).mul_(ctx.sharpness * (1 - ctx.leak))
        return ddx * slope if ctx.needs_input_grad[0] else None, dz, None, None, None


def _derivatives(ddx: Tensor, dy: Tensor, z: Tensor, sharpness: float | Tensor, leak: Leak) -> tuple[Tensor, Tensor]:
    gate = torch.sigmoid(z * sharpness)
    return ddx * (leak + (1 - leak) * gate), ddx * dy * gate * (1 - gate) * ((1 - leak) * sharpness)


class _SmoothReLU(torch.autograd.Function):
    """`value` of z, written into the tensor `into` if there is one, with `smooth_slope` as its derivative."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, into: Tensor | None, sharpness: Any, leak: Any, value: Value) -> Tensor:
        ctx.sharpness, ctx.leak, ctx.known = sharpness, leak, None
        ctx.save_for_backward(z)
        if into is None:
            return value(z, sharpness, leak)
        ctx.mark_dirty(into)
        return into.copy_(value(z, sharpness, leak))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (z,) = ctx.saved_tensors
        if kernels_are_plain():
            return _formula(dy, z, ctx.sharpness, ctx.leak), None, None, None, None
        # the derivative of a gradient goes through this function a second time, at the same z
        known = ctx.known or _gate(z.detach(), ctx.sharpness, ctx.leak)
        ctx.known = known if torch.is_grad_enabled() else None
        return _smooth_slope(dy, z, ctx.sharpness, ctx.leak, known), None, None, None, None


def _smooth_relu(z: Tensor, sharpness: float | Tensor, leak: Leak, value: Value, inplace: bool) -> Tensor:
    # in place, the derivative still needs the input that is overwritten; the copy is part of the graph
    source, into = (z.clone(), z) if inplace else (z, None)
    found: Tensor = _SmoothReLU.apply(source, into, sharpness, leak, value)  # type: ignore[no-untyped-call]
    return found
