"""A convolution that is cheap to differentiate twice on a CPU.

A convolution defines the trilinear form <y, w * x>, whose three partial maps are each other's derivatives,

    conv(x, w) = w * x,      spread(y, w) = conv^T in x,      correlate(x, y) = conv^T in w,

so three functions that call each other in `backward` are differentiable to any order and compute only what is needed.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.engine.layout import THIN
from holdfast.engine.ops import apply


@dataclass(frozen=True)
class Shape:
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


def _convolve(x: Tensor, w: Tensor, shape: Shape, bias: Tensor | None = None) -> Tensor:
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


def _spread_blocks(y: Tensor, w: Tensor, shape: Shape) -> Tensor:
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


def _spread(y: Tensor, w: Tensor, shape: Shape) -> Tensor:
    if shape.in_blocks:
        return _spread_blocks(y, w, shape)
    if shape.thin:
        columns = w.flatten(1).T.expand(y.shape[0], -1, -1) @ y.flatten(2)
        return F.fold(columns, shape.image[2:], **shape.windows)
    y, w = y.contiguous(memory_format=shape.layout), w.contiguous(memory_format=shape.layout)
    nowhere = torch.empty(shape.image, dtype=y.dtype, memory_format=shape.layout)  # only its shape and layout are used
    return shape.library_gradient(y, nowhere, w, (True, False))[0]


def _correlate(x: Tensor, y: Tensor, shape: Shape) -> Tensor:
    if shape.thin:
        patches = F.unfold(x, **shape.windows)
        return torch.einsum("bop,bkp->ok", y.flatten(2), patches).reshape(shape.kernel)
    x, y = x.contiguous(memory_format=shape.layout), y.contiguous(memory_format=shape.layout)
    nowhere = torch.empty(shape.kernel, dtype=x.dtype, memory_format=shape.layout)
    return shape.library_gradient(y, x, nowhere, (False, True))[1]


class _Bilinear(torch.autograd.Function):
    """Saves both arguments and the shape for the backward pass."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        first, second, ctx.shape = inputs
        ctx.save_for_backward(first, second)


class Convolve(_Bilinear):
    @staticmethod
    def forward(x: Tensor, w: Tensor, shape: Shape, bias: Tensor | None = None) -> Tensor:
        return _convolve(x, w, shape, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _Bilinear.setup_context(ctx, inputs[:3], output)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        dx = apply(_Spread, dy, w, ctx.shape) if ctx.needs_input_grad[0] else None
        dw = apply(_Correlate, x, dy, ctx.shape) if ctx.needs_input_grad[1] else None
        return dx, dw, None, dy.sum((0, 2, 3)) if ctx.needs_input_grad[3] else None


class _Spread(_Bilinear):
    @staticmethod
    def forward(y: Tensor, w: Tensor, shape: Shape) -> Tensor:
        return _spread(y, w, shape)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        y, w = ctx.saved_tensors
        dy = apply(Convolve, dx, w, ctx.shape, None) if ctx.needs_input_grad[0] else None
        dw = apply(_Correlate, dx, y, ctx.shape) if ctx.needs_input_grad[1] else None
        return dy, dw, None


class _Correlate(_Bilinear):
    @staticmethod
    def forward(x: Tensor, y: Tensor, shape: Shape) -> Tensor:
        return _correlate(x, y, shape)

    @staticmethod
    def backward(ctx: Any, dw: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        dx = apply(_Spread, y, dw, ctx.shape) if ctx.needs_input_grad[0] else None
        dy = apply(Convolve, x, dw, ctx.shape, None) if ctx.needs_input_grad[1] else None
        return dx, dy, None
