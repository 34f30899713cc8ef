"""Max-pooling of windows that do not overlap, in channels-last layout; its derivatives are a gather and a scatter."""

from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.engine.ops import apply

_OWN_POOLING: ContextVar[int] = ContextVar("own_pooling", default=0)


def own_pooling(change: int) -> None:
    """Tell the kernels of this thread that another context pools: +1 when it starts, -1 when it ends."""
    _OWN_POOLING.set(_OWN_POOLING.get() + change)


def pools_elsewhere() -> bool:
    """Whether another context pools in this thread."""
    return bool(_OWN_POOLING.get())


class _Indexed(torch.autograd.Function):
    """Saves the index and the number of positions; both functions are linear, so nothing else is needed."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, index, ctx.size = inputs
        ctx.save_for_backward(index)


class _Pick(_Indexed):
    """(x [B, C, P], index [B, C, Q]) -> x at index; no position is picked twice."""

    @staticmethod
    def forward(x: Tensor, index: Tensor, size: int) -> Tensor:
        return x.gather(2, index)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return apply(_Put, dy, index, ctx.size), None, None


class _Put(_Indexed):
    """(y [B, C, Q], index) -> x [B, C, P] with y at index and zero elsewhere: the transpose of `_Pick`."""

    @staticmethod
    def forward(y: Tensor, index: Tensor, size: int) -> Tensor:
        return y.new_zeros(*y.shape[:2], size).scatter_(2, index, y)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return apply(_Pick, dx, index, ctx.size), None, None


class Pool(torch.autograd.Function):
    """x -> (maxima of non-overlapping windows, their positions [B, C, Q]): `_Pick` with positions determined by x."""

    @staticmethod
    def forward(x: Tensor, window: tuple[int, int], stride: tuple[int, int]) -> tuple[Tensor, Tensor]:
        last = x.contiguous(memory_format=torch.channels_last)
        maxima, index = F.max_pool2d(last, window, stride, return_indices=True)
        return maxima.contiguous(), index.flatten(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.shape = inputs[0].shape
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        places = ctx.shape[2] * ctx.shape[3]
        return apply(_Put, dy.flatten(2), index.contiguous(), places).reshape(ctx.shape), None, None
