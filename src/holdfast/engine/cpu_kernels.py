"""Faster convolutions and max-poolings for networks that are differentiated twice on a CPU.

PyTorch is slow there for three reasons (figures in docs/performance.md):

- the derivative of a convolution's gradient always computes a gradient for the weights, even if it is not needed;
- with one or three channels, as in every first layer, the kernels reach a tenth of the machine's throughput;
- max-pooling in the default memory layout does not use the vector units.

A convolution defines the trilinear form <y, w * x>, whose three partial maps are each other's derivatives,

    conv(x, w) = w * x,      spread(y, w) = conv^T in x,      correlate(x, y) = conv^T in w,

so three functions that call each other in `backward` are differentiable to any order and compute only what is needed.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.engine.layout import THIN, Copies, copies_of, laid_out, layout_of
from holdfast.engine.modes import kernels_are_plain
from holdfast.engine.ops import both_axes
from holdfast.types import Model


@dataclass(frozen=True)
class StraightPath:
    """The points start + t_j direction for each example: start and direction [B, ...], t [points]."""

    start: Tensor
    direction: Tensor
    t: Tensor

    def points(self) -> Tensor:
        """All points, [points, B, ...]."""
        return torch.addcmul(self.start, self.t.reshape(-1, *[1] * self.start.dim()), self.direction)

    def shifted(self, by: Tensor) -> "StraightPath":
        """The path with its start moved by `by`."""
        return StraightPath(self.start + by, self.direction, self.t)


class fast_kernels(TorchFunctionMode):  # noqa: N801  (used like a function: `with fast_kernels():`)
    """Inside this context `conv2d` and `max_pool2d` on CPU tensors use faster kernels; the values are the same.

    With `weights=False` the caller promises not to request gradients in the weights of a convolution. If `images` are
    the points of `path`, in order, their convolution is a straight path, too: two convolutions are enough for all
    points. `layout` is the memory layout of all convolutions but thin ones; `copies` are weights that were already
    copied into it. With `twice=False` the caller promises to differentiate only once; in channels_last the library's
    own convolutions are then the fastest.

    >>> x, w = torch.rand(2, 1, 8, 8), torch.rand(4, 1, 3, 3)
    >>> with fast_kernels():
    ...     y = F.conv2d(x, w, padding=1)
    >>> torch.allclose(y, F.conv2d(x, w, padding=1), atol=1e-6)
    True
    """

    def __init__(
        self,
        *,
        weights: bool = True,
        images: Tensor | None = None,
        path: StraightPath | None = None,
        layout: torch.memory_format = torch.contiguous_format,
        twice: bool = True,
        copies: Copies | None = None,
    ) -> None:
        super().__init__()
        self.copies = copies
        self.twice = twice
        self.weights = weights
        self.images = images
        self.path = path
        self.layout = layout

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        form = _KERNELS.get(func)
        found = form(self, *args, **(kwargs or {})) if form is not None else None
        return func(*args, **(kwargs or {})) if found is None else found


_OWN_POOLING: ContextVar[int] = ContextVar("own_pooling", default=0)


def own_pooling(change: int) -> None:
    """Tell the kernels of this thread that another context pools: +1 when it starts, -1 when it ends."""
    _OWN_POOLING.set(_OWN_POOLING.get() + change)


def fast_kernels_for(
    model: Model, x: Tensor, *, weights: bool = True, path: StraightPath | None = None, twice: bool = False
) -> AbstractContextManager[Any]:
    """`fast_kernels()` for images x in a network if that is faster, else a null context; `path` if x are its points."""
    pays = x.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
    if not pays or kernels_are_plain():
        return nullcontext()
    layout, copies = layout_of(model), copies_of(model)
    return fast_kernels(weights=weights, images=x, path=path, layout=layout, twice=twice, copies=copies)


@dataclass(frozen=True)
class _Shape:
    """The fixed parameters of a convolution."""

    image: torch.Size
    kernel: torch.Size
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    layout: torch.memory_format = torch.contiguous_format

    @property
    def thin(self) -> bool:
        return self.image[1] <= THIN and self.groups == 1

    @property
    def in_blocks(self) -> bool:
        """Whether the gradient in the image is computed in blocks of 2 x 2 pixels."""
        plain = self.stride == (1, 1) and self.dilation == (1, 1) and self.layout is torch.channels_last
        fits = all(side % BLOCK == 0 for side in self.image[2:])
        reach = all(k > p for k, p in zip(self.kernel[2:], self.padding, strict=True))
        return self.thin and self.image[1] > 1 and plain and fits and reach

    @property
    def windows(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel[2:],
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }

    def library_gradient(self, y: Tensor, x: Tensor, w: Tensor, wanted: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
        dx, dw, _ = torch.ops.aten.convolution_backward(
            y, x, w, None, self.stride, self.padding, self.dilation, False, (0, 0), self.groups, (*wanted, False)
        )
        return dx, dw


def _convolve(x: Tensor, w: Tensor, shape: _Shape, bias: Tensor | None = None) -> Tensor:
    if shape.thin:
        x, w = _channels_innermost(x), _channels_innermost(w)
    else:
        x, w = x.contiguous(memory_format=shape.layout), w.contiguous(memory_format=shape.layout)
    return F.conv2d(x, w, bias, shape.stride, shape.padding, shape.dilation, shape.groups)


def _channels_innermost(t: Tensor) -> Tensor:
    """The same values in channels-last order, with the strides of that layout even if there is only one channel."""
    t = t.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = t.shape
    return t.as_strided(t.shape, (channels * height * width, 1, channels * width, channels))


BLOCK = 2
"""Side of a block of pixels whose gradients are computed together."""


def _spread_blocks(y: Tensor, w: Tensor, shape: _Shape) -> Tensor:
    """The gradient in the image as a convolution of stride 2 that has the colours of 2 x 2 pixels as its channels.

    The library computes 16 channels at a time, of which an image with three colours uses three; a block uses twelve.
    """
    (out, colours, rows, columns), (height, width) = w.shape, shape.image[2:]
    blocks = w.new_zeros(colours, BLOCK, BLOCK, out, rows + BLOCK - 1, columns + BLOCK - 1)
    turned = w.flip(2, 3).transpose(0, 1)
    for a in range(BLOCK):
        for b in range(BLOCK):
            blocks[:, a, b, :, a : a + rows, b : b + columns] = turned
    blocks = blocks.flatten(0, 2).contiguous(memory_format=torch.channels_last)
    margin = rows - 1 - shape.padding[0], columns - 1 - shape.padding[1]
    found = F.conv2d(y.contiguous(memory_format=torch.channels_last), blocks, stride=BLOCK, padding=margin)
    parts = found.reshape(-1, colours, BLOCK, BLOCK, height // BLOCK, width // BLOCK).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(-1, colours, height, width)


def _spread(y: Tensor, w: Tensor, shape: _Shape) -> Tensor:
    if shape.in_blocks:
        return _spread_blocks(y, w, shape)
    if shape.thin:
        columns = w.flatten(1).T.expand(y.shape[0], -1, -1) @ y.flatten(2)
        return F.fold(columns, shape.image[2:], **shape.windows)
    y, w = y.contiguous(memory_format=shape.layout), w.contiguous(memory_format=shape.layout)
    nowhere = torch.empty(shape.image, dtype=y.dtype, memory_format=shape.layout)  # only its shape and layout are used
    return shape.library_gradient(y, nowhere, w, (True, False))[0]


def _correlate(x: Tensor, y: Tensor, shape: _Shape) -> Tensor:
    if shape.thin:
        patches = F.unfold(x, **shape.windows)
        return torch.einsum("bop,bkp->ok", y.flatten(2), patches).reshape(shape.kernel)
    x, y = x.contiguous(memory_format=shape.layout), y.contiguous(memory_format=shape.layout)
    nowhere = torch.empty(shape.kernel, dtype=x.dtype, memory_format=shape.layout)
    return shape.library_gradient(y, x, nowhere, (False, True))[1]


def _apply(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    result: Tensor = function.apply(*inputs)
    return result


class _Bilinear(torch.autograd.Function):
    """Saves both arguments and the shape for the backward pass."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        first, second, ctx.shape = inputs
        ctx.save_for_backward(first, second)


class _Convolve(_Bilinear):
    @staticmethod
    def forward(x: Tensor, w: Tensor, shape: _Shape, bias: Tensor | None = None) -> Tensor:
        return _convolve(x, w, shape, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _Bilinear.setup_context(ctx, inputs[:3], output)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        dx = _apply(_Spread, dy, w, ctx.shape) if ctx.needs_input_grad[0] else None
        dw = _apply(_Correlate, x, dy, ctx.shape) if ctx.needs_input_grad[1] else None
        return dx, dw, None, dy.sum((0, 2, 3)) if ctx.needs_input_grad[3] else None


class _Spread(_Bilinear):
    @staticmethod
    def forward(y: Tensor, w: Tensor, shape: _Shape) -> Tensor:
        return _spread(y, w, shape)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        y, w = ctx.saved_tensors
        dy = _apply(_Convolve, dx, w, ctx.shape, None) if ctx.needs_input_grad[0] else None
        dw = _apply(_Correlate, dx, y, ctx.shape) if ctx.needs_input_grad[1] else None
        return dy, dw, None


class _Correlate(_Bilinear):
    @staticmethod
    def forward(x: Tensor, y: Tensor, shape: _Shape) -> Tensor:
        return _correlate(x, y, shape)

    @staticmethod
    def backward(ctx: Any, dw: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        dx = _apply(_Spread, y, dw, ctx.shape) if ctx.needs_input_grad[0] else None
        dy = _apply(_Convolve, x, dw, ctx.shape, None) if ctx.needs_input_grad[1] else None
        return dx, dy, None


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
        return _apply(_Put, dy, index, ctx.size), None, None


class _Put(_Indexed):
    """(y [B, C, Q], index) -> x [B, C, P] with y at index and zero elsewhere: the transpose of `_Pick`."""

    @staticmethod
    def forward(y: Tensor, index: Tensor, size: int) -> Tensor:
        return y.new_zeros(*y.shape[:2], size).scatter_(2, index, y)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return _apply(_Pick, dx, index, ctx.size), None, None


class _Pool(torch.autograd.Function):
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
        return _apply(_Put, dy.flatten(2), index.contiguous(), places).reshape(ctx.shape), None, None


def _fast_conv2d(
    mode: fast_kernels,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor | None:
    if (
        x.device.type != "cpu"
        or isinstance(padding, str)
        or x.dim() != 4
        or x.dtype != weight.dtype
        or not x.is_floating_point()
    ):
        return None
    if weight.shape[1] > THIN or mode.layout is torch.channels_last:
        weight = laid_out(weight, mode.layout, mode.copies)
    if not mode.weights:
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    fixed = (both_axes(stride), both_axes(padding), both_axes(dilation), groups)
    path = mode.path
    if path is None or x is not mode.images or len(path.t) == 1:
        return _convolution(mode, x, weight, bias, *fixed)
    start = _convolution(mode, path.start, weight, bias, *fixed)
    direction = _convolution(mode, path.direction, weight, None, *fixed)
    return StraightPath(start, direction, path.t).points().flatten(0, 1)


def _convolution(
    mode: fast_kernels,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Tensor:
    wide = x.shape[1] > THIN or (x.shape[1] > 1 and weight.requires_grad)
    if mode.layout is torch.channels_last and not mode.twice and wide:
        x = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    shape = _Shape(x.shape, weight.shape, stride, padding, dilation, groups, mode.layout)
    return _apply(_Convolve, x, weight, shape, bias)


def _torch_batch_norm(
    mode: fast_kernels,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn: bool,
) -> Tensor | None:
    return _fast_batch_norm(mode, x, mean, variance, weight, bias, training, momentum, eps)


def _fast_batch_norm(
    mode: fast_kernels,
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor | None:
    """With fixed statistics and weights: x scale + shift, which is also cheap to differentiate twice."""
    trained = mode.weights and any(t is not None and t.requires_grad for t in (weight, bias))
    if training or trained or mean is None or variance is None or x.dim() != 4 or x.device.type != "cpu":
        return None
    with torch.no_grad():
        scale = (variance + eps).rsqrt() if weight is None else weight * (variance + eps).rsqrt()
        shift = -mean * scale if bias is None else bias - mean * scale
        scale, shift = scale.to(x.dtype)[:, None, None], shift.to(x.dtype)[:, None, None]
    return torch.addcmul(shift, x, scale)


def _fast_mean(mode: fast_kernels, x: Tensor, dim: Any = None, keepdim: bool = False, **rest: Any) -> Tensor | None:
    """Over the image, in channels_last: the derivative then has this layout, too, and the next layer mixes no two."""
    if rest or dim is None or isinstance(dim, int) or x.dim() != 4 or sorted(d % 4 for d in dim) != [2, 3]:
        return None
    if mode.layout is not torch.channels_last or x.device.type != "cpu":
        return None
    means = x.permute(0, 2, 3, 1).mean((1, 2))
    return means[:, :, None, None] if keepdim else means


def _fast_adaptive_avg_pool2d(mode: fast_kernels, x: Tensor, output_size: Any) -> Tensor | None:
    return _fast_mean(mode, x, (2, 3), True) if output_size in (1, (1, 1), [1, 1]) else None


def _fast_max_pool2d(
    mode: fast_kernels,
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | None:
    window = both_axes(kernel_size)
    apart = all(s >= k for s, k in zip(both_axes(stride or kernel_size), window, strict=True))
    plain = both_axes(padding) == (0, 0) and both_axes(dilation) == (1, 1) and not ceil_mode and not return_indices
    if _OWN_POOLING.get():
        return None
    if not (apart and plain and x.device.type == "cpu" and x.dim() == 4 and x.is_floating_point()):
        return None
    maxima, _ = _Pool.apply(x, window, both_axes(stride or kernel_size))  # type: ignore[no-untyped-call]
    return maxima  # type: ignore[no-any-return]


_KERNELS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
    torch.conv2d: _fast_conv2d,
    torch.max_pool2d: _fast_max_pool2d,
    F.max_pool2d: _fast_max_pool2d,
    torch.mean: _fast_mean,
    Tensor.mean: _fast_mean,
    F.adaptive_avg_pool2d: _fast_adaptive_avg_pool2d,
    torch.batch_norm: _torch_batch_norm,
    F.batch_norm: _fast_batch_norm,  # what nn.BatchNorm2d calls; inside it, the context no longer sees torch.batch_norm
}
