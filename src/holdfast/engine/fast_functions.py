"""Fast versions of PyTorch's convolution, pooling, batch norm and mean; each returns None where it does not apply."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.engine.convolution import Convolve, Shape
from holdfast.engine.layout import THIN, Copies, laid_out
from holdfast.engine.ops import apply, both_axes
from holdfast.engine.pooling import Pool, pools_elsewhere
from holdfast.engine.straight_path import StraightPath


@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """What a caller promises and knows; `fast_kernels` explains each field."""

    weights: bool = True
    images: Tensor | None = None
    path: StraightPath | None = None
    layout: torch.memory_format = torch.contiguous_format
    twice: bool = True
    copies: Copies | None = None


def _fast_conv2d(
    settings: KernelSettings,
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
    if weight.shape[1] > THIN or settings.layout is torch.channels_last:
        weight = laid_out(weight, settings.layout, settings.copies)
    if not settings.weights:
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    fixed = (both_axes(stride), both_axes(padding), both_axes(dilation), groups)
    path = settings.path
    if path is None or x is not settings.images or len(path.t) == 1:
        return _convolution(settings, x, weight, bias, *fixed)
    start = _convolution(settings, path.start, weight, bias, *fixed)
    direction = _convolution(settings, path.direction, weight, None, *fixed)
    return StraightPath(start, direction, path.t).points().flatten(0, 1)


def _convolution(
    settings: KernelSettings,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Tensor:
    wide = x.shape[1] > THIN or (x.shape[1] > 1 and weight.requires_grad)
    if settings.layout is torch.channels_last and not settings.twice and wide:
        x = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    shape = Shape(x.shape, weight.shape, stride, padding, dilation, groups, settings.layout)
    return apply(Convolve, x, weight, shape, bias)


def _torch_batch_norm(
    settings: KernelSettings,
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
    return _fast_batch_norm(settings, x, mean, variance, weight, bias, training, momentum, eps)


def _fast_batch_norm(
    settings: KernelSettings,
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
    trained = settings.weights and any(t is not None and t.requires_grad for t in (weight, bias))
    if training or trained or mean is None or variance is None or x.dim() != 4 or x.device.type != "cpu":
        return None
    with torch.no_grad():
        scale = (variance + eps).rsqrt() if weight is None else weight * (variance + eps).rsqrt()
        shift = -mean * scale if bias is None else bias - mean * scale
        scale, shift = scale.to(x.dtype)[:, None, None], shift.to(x.dtype)[:, None, None]
    return torch.addcmul(shift, x, scale)


def _fast_mean(
    settings: KernelSettings, x: Tensor, dim: Any = None, keepdim: bool = False, **rest: Any
) -> Tensor | None:
    """Over the image, in channels_last: the derivative then has this layout, too, and the next layer mixes no two."""
    if rest or dim is None or isinstance(dim, int) or x.dim() != 4 or sorted(d % 4 for d in dim) != [2, 3]:
        return None
    if settings.layout is not torch.channels_last or x.device.type != "cpu":
        return None
    means = x.permute(0, 2, 3, 1).mean((1, 2))
    return means[:, :, None, None] if keepdim else means


def _fast_adaptive_avg_pool2d(settings: KernelSettings, x: Tensor, output_size: Any) -> Tensor | None:
    return _fast_mean(settings, x, (2, 3), True) if output_size in (1, (1, 1), [1, 1]) else None


def _fast_max_pool2d(
    settings: KernelSettings,
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
    if pools_elsewhere():
        return None
    if not (apart and plain and x.device.type == "cpu" and x.dim() == 4 and x.is_floating_point()):
        return None
    maxima, _ = Pool.apply(x, window, both_axes(stride or kernel_size))  # type: ignore[no-untyped-call]
    return maxima  # type: ignore[no-any-return]


FAST_FUNCTIONS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
    torch.conv2d: _fast_conv2d,
    torch.max_pool2d: _fast_max_pool2d,
    F.max_pool2d: _fast_max_pool2d,
    torch.mean: _fast_mean,
    Tensor.mean: _fast_mean,
    F.adaptive_avg_pool2d: _fast_adaptive_avg_pool2d,
    torch.batch_norm: _torch_batch_norm,
    F.batch_norm: _fast_batch_norm,  # what nn.BatchNorm2d calls; inside it, the context no longer sees torch.batch_norm
}
