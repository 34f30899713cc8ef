"""A map over its image as a matplotlib figure, for notebooks and papers."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import expected
from holdfast.report.canvas import new_figure
from holdfast.report.overlay import overlay
from holdfast.report.pictures import color_scale, shade
from holdfast.runs.panels import to_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]


def plot(map: Any, image: Any, *, title: str = "", scale: float | None = None) -> "Figure":  # noqa: A002
    """Draw a map in colour over its image in grey; bright colours mark important pixels.

    `map` is a saliency map [H, W], or an attribution [C, H, W], whose absolute values are summed over the channels.
    `image` is [H, W], [C, H, W] or [H, W, 3], bytes or floats in [0, 1]. Both are tensors or NumPy arrays and may have
    a batch dimension of 1. `scale` is the value of the brightest colour; set it to compare two maps. By default 99.5 %
    of the pixels are below it.

    >>> import holdfast as hf, torch
    >>> figure = hf.plot(torch.rand(8, 8), torch.rand(1, 8, 8), title="digit 3")
    >>> figure.axes[0].get_title()
    'digit 3'
    """
    saliency, pixels = _map(_array(map, "map")), _pixels(_array(image, "image"))
    if saliency.shape != pixels.shape[:2]:
        raise expected(f"a map as large as the image, {list(pixels.shape[:2])}", got=list(saliency.shape))
    if scale is not None and not scale > 0:
        raise expected("scale > 0", got=scale)
    height, width = saliency.shape
    figure = new_figure(width=4.0, height=4.0 * height / width + (0.3 if title else 0))
    axis = figure.subplots()
    axis.imshow(overlay(pixels, shade(saliency, color_scale([saliency]) if scale is None else scale)))
    axis.set_axis_off()
    axis.set_title(title)
    return figure


def _array(values: Any, name: str) -> Array:
    """A tensor on any device, or anything that NumPy takes, as an array without a batch dimension."""
    if hasattr(values, "detach"):  # a tensor, without loading PyTorch for those who have none
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise expected(f"numbers as {name}", got=type(values).__name__)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim not in (2, 3):
        raise expected(f"one {name} [H, W] or [C, H, W]", got=list(array.shape), fix="pass one example of the batch")
    return array


def _map(array: Array) -> NDArray[np.float64]:
    grid = array.astype(np.float64)
    finite: NDArray[np.float64] = np.nan_to_num(np.abs(grid if grid.ndim == 2 else np.abs(grid).sum(0)))
    return finite


def _pixels(array: Array) -> NDArray[np.uint8]:
    """The image as bytes [H, W] or [H, W, 3]."""
    if array.ndim == 3 and array.shape[0] in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] not in (1, 3):
        raise expected("an image with 1 or 3 channels", got=list(array.shape))
    if array.dtype != np.uint8 and array.size and not (array.min() >= 0 and array.max() <= 1):
        got = f"[{float(array.min()):g}, {float(array.max()):g}]"
        raise expected("pixels in [0, 1], or bytes", got=got, fix="undo the normalisation of the image")
    pixels = to_bytes(array)
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
