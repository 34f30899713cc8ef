"""The exact-value surrogate: the values of the network itself, with smoothed derivatives of its kinks.

The map of a ReLU network is piecewise constant in its gates, so its derivative says nothing about the next kink. The
softplus surrogate (`holdfast.models.surrogate`) smooths values and derivatives, and its activations differ from the
network's wherever many units are slightly active. Here every activation keeps its exact value; only its derivative is
smoothed, and that derivative can be differentiated again:

    relu_a'(z)      ->  a + (1 - a) sigmoid(z / w)
    max-pooling'    ->  softmax(window / w)

The width w of a layer is a fraction of the standard deviation of its inputs, computed for each example. The maps
converge to those of the network as the fraction goes to zero.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.engine.ops import both_axes
from holdfast.engine.pooling import own_pooling
from holdfast.engine.smooth_kinks import deviations, exact_relu
from holdfast.errors import expected
from holdfast.models.relu_functions import relu_functions

SMALLEST_WIDTH = 1e-6
"""Width of a layer whose inputs are constant."""

Form = Callable[..., Tensor | None]


class _Pool(torch.autograd.Function):
    """Maxima of windows, with softmax(window / width) as the derivative."""

    @staticmethod
    def forward(x: Tensor, width: Tensor, kernel: tuple[int, int], options: Mapping[str, Any]) -> Tensor:
        maxima: Tensor = F.max_pool2d(x, kernel, **options)
        return maxima

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, width, ctx.kernel, ctx.options = inputs
        ctx.shape = output.shape
        ctx.save_for_backward(x, width)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, width = ctx.saved_tensors
        if _tiles(x, ctx.kernel, ctx.options):
            dx = _tiled(x, dy, width, ctx.kernel)
        else:
            dx = _overlapping(x, dy, width, ctx.kernel, ctx.options)
        return dx, None, None, None


def _tiles(x: Tensor, kernel: tuple[int, int], options: Mapping[str, Any]) -> bool:
    """Whether the windows tile the image."""
    plain = both_axes(options["padding"]) == (0, 0) and both_axes(options["dilation"]) == (1, 1)
    whole = x.shape[2] % kernel[0] == 0 and x.shape[3] % kernel[1] == 0
    return plain and whole and both_axes(options["stride"]) == kernel


def _tiled(x: Tensor, dy: Tensor, width: Tensor, kernel: tuple[int, int]) -> Tensor:
    batch, channels, height, wide = x.shape
    rows, columns = kernel
    parts = (batch, channels, height // rows, rows, wide // columns, columns)
    scaled = (x / width).reshape(parts)
    top = scaled.detach().amax((3, 5), keepdim=True)
    weight = (scaled - top).exp()
    share = weight / weight.sum((3, 5), keepdim=True)
    return (share * dy[:, :, :, None, :, None]).reshape(x.shape)


def _overlapping(x: Tensor, dy: Tensor, width: Tensor, kernel: tuple[int, int], options: Mapping[str, Any]) -> Tensor:
    (rows, columns), (top, left) = kernel, both_axes(options["padding"])
    windows = {
        "kernel_size": kernel,
        "stride": both_axes(options["stride"]),
        "dilation": both_axes(options["dilation"]),
    }
    lowest = torch.finfo(x.dtype).min / 4  # padding is never the maximum
    padded = F.pad(x / width, (left, left, top, top), value=lowest)
    patches = F.unfold(padded, **windows).reshape(*x.shape[:2], rows * columns, -1)
    spread = patches.softmax(2) * dy.flatten(2)[:, :, None]
    whole = F.fold(spread.flatten(1, 2), padded.shape[2:], **windows)
    return whole[:, :, top : top + x.shape[2], left : left + x.shape[3]]


def _width(z: Tensor, fraction: float) -> Tensor:
    """The width of a layer, per example: `fraction` of the standard deviation of its inputs z [B, ...]."""
    found = deviations(z.detach() if z.dim() > 1 else z.detach()[None])
    width = (fraction * found).clamp_min(SMALLEST_WIDTH)
    return width.reshape(-1, *[1] * (z.dim() - 1)) if z.dim() > 1 else width


def _kink(z: Tensor, fraction: float, leak: float | Tensor = 0.0, inplace: bool = False) -> Tensor:
    leak = leak.detach() if isinstance(leak, Tensor) else leak
    return exact_relu(z, 1 / _width(z, fraction), leak, inplace=inplace)


def _max_pool2d(
    fraction: float,
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | None:
    if x.dim() != 4 or ceil_mode or return_indices:
        return None
    kernel = both_axes(kernel_size)
    options = {
        "stride": both_axes(stride or kernel_size),
        "padding": both_axes(padding),
        "dilation": both_axes(dilation),
    }
    found: Tensor = _Pool.apply(x, _width(x, fraction), kernel, options)  # type: ignore[no-untyped-call]
    return found


FORMS: Mapping[Callable[..., Any], Form] = {
    **relu_functions(_kink),
    F.max_pool2d: _max_pool2d,
    torch.max_pool2d: _max_pool2d,
}
"""Functions with a kink, and their form with exact values and smoothed derivatives."""


class exact_value_surrogate(TorchFunctionMode):  # noqa: N801  (used like a function)
    """Inside this context, the derivatives of ReLU, leaky ReLU, PReLU, ReLU6, hard tanh and max-pooling are smoothed.

    All values stay those of the network. `width` is the width of the smoothing, as a fraction of the standard deviation
    of each layer's inputs. `swapped` counts the replaced calls. As for the softplus surrogate, compiled code and
    `clamp` are not replaced; neither is pooling with `ceil_mode` or `return_indices`.

    >>> x = torch.tensor([[-1.0, 1.0]], requires_grad=True)
    >>> with exact_value_surrogate(width=1.0):
    ...     y = torch.relu(x)
    >>> y.tolist(), [round(d, 3) for d in torch.autograd.grad(y.sum(), x)[0][0].tolist()]
    ([[0.0, 1.0]], [0.269, 0.731])
    """

    def __init__(self, width: float) -> None:
        super().__init__()
        if not width > 0:
            raise expected("width > 0", got=width, fix="a smaller width is closer to the network; 0.05 is a good start")
        self.width = width
        self.swapped = 0

    def __enter__(self) -> "exact_value_surrogate":
        own_pooling(1)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        own_pooling(-1)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        form = FORMS.get(func)
        found = None if form is None else form(self.width, *args, **(kwargs or {}))
        if found is None:
            return func(*args, **(kwargs or {}))
        self.swapped += 1
        return found
