"""Faster convolutions and max-poolings for networks that are differentiated twice on a CPU.

PyTorch is slow there for three reasons (figures in docs/performance.md):

- the derivative of a convolution's gradient always computes a gradient for the weights, even if it is not needed;
- with one or three channels, as in every first layer, the kernels reach a tenth of the machine's throughput;
- max-pooling in the default memory layout does not use the vector units.

The context `fast_kernels` exchanges PyTorch's functions for those in `fast_functions`.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.engine.fast_functions import FAST_FUNCTIONS, KernelSettings
from holdfast.engine.layout import Copies, copies_of, layout_of
from holdfast.engine.modes import kernels_are_plain
from holdfast.engine.straight_path import StraightPath
from holdfast.types import Model


class fast_kernels(TorchFunctionMode):  # noqa: N801  (used like a function: `with fast_kernels():`)
    """Inside this context `conv2d` and `max_pool2d` on CPU tensors use faster kernels; the values are the same.

    With `weights=False` the caller promises not to request gradients in the weights of a convolution. If `images` are
    the points of `path`, in order, their convolution is a straight path, too: two convolutions are enough for all
    points. `layout` is the memory layout of all convolutions but thin ones; `copies` are weights that were already
    copied into it. With `twice=False` the caller promises to differentiate only once; in channels_last the library's
    own convolutions are then the fastest.

    >>> x, w = torch.rand(2, 1, 8, 8), torch.rand(4, 1, 3, 3)
    >>> with fast_kernels():
    ...     y = torch.conv2d(x, w, padding=1)
    >>> torch.allclose(y, torch.conv2d(x, w, padding=1), atol=1e-6)
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
        self.settings = KernelSettings(
            weights=weights, images=images, path=path, layout=layout, twice=twice, copies=copies
        )

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        form = FAST_FUNCTIONS.get(func)
        found = form(self.settings, *args, **(kwargs or {})) if form is not None else None
        return func(*args, **(kwargs or {})) if found is None else found


def fast_kernels_for(
    model: Model, x: Tensor, *, weights: bool = True, path: StraightPath | None = None, twice: bool = False
) -> AbstractContextManager[Any]:
    """`fast_kernels()` for images x in a network if that is faster, else a null context; `path` if x are its points."""
    pays = x.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
    if not pays or kernels_are_plain():
        return nullcontext()
    layout, copies = layout_of(model), copies_of(model)
    return fast_kernels(weights=weights, images=x, path=path, layout=layout, twice=twice, copies=copies)
