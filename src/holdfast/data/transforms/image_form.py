"""Another size or another number of channels for the images of a dataset."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from holdfast.data.dataset import Dataset
from holdfast.data.formats.geometry import Geometry, proportions_note
from holdfast.errors import expected

CHANNELS = {"rgb": 3, "grey": 1}
_LUMA = (19595, 38470, 7471)  # ITU-R 601-2, in 1/65536, as Pillow's conversion to L


def with_channels(dataset: Dataset, channels: str) -> Dataset:
    """The images as `rgb` (grey is repeated three times) or `grey` (0.299 R + 0.587 G + 0.114 B, rounded)."""
    if channels not in CHANNELS:
        raise expected(f"channels to be one of {', '.join(CHANNELS)}", got=repr(channels))
    if dataset.image_shape[0] == CHANNELS[channels]:
        return dataset
    if dataset.image_shape[0] not in CHANNELS.values():
        raise expected("images of 1 or 3 channels", got=dataset.image_shape[0])
    x = dataset.x.expand(-1, 3, -1, -1) if channels == "rgb" else _grey(dataset.x)
    return replace(dataset, x=x.contiguous(), source=f"{dataset.source} | {channels}")


def rgb(dataset: Dataset) -> Dataset:
    """The images with three channels."""
    return with_channels(dataset, "rgb")


def grey(dataset: Dataset) -> Dataset:
    """The images with one channel."""
    return with_channels(dataset, "grey")


def resize(dataset: Dataset, *, to: int) -> Dataset:
    """The whole images, without a crop, as squares of `to` pixels a side (Pillow's BILINEAR)."""
    return with_geometry(dataset, Geometry(size=to))


def with_geometry(dataset: Dataset, geometry: Geometry) -> Dataset:
    """The images resized and cropped, with the filters of Pillow."""
    _, height, width = dataset.image_shape
    if geometry.fixed is None or (geometry.fixed == (height, width) == geometry.resized(height, width)):
        return dataset
    if dataset.x.dtype != torch.uint8:
        fix = "resize them before, or store them as uint8"
        raise expected("uint8 images to resize", got=str(dataset.x.dtype), fix=fix)
    from PIL import Image

    grey = dataset.image_shape[0] == 1
    pixels = dataset.x.permute(0, 2, 3, 1).contiguous().numpy()
    x = np.empty((len(pixels), *geometry.fixed, pixels.shape[3]), np.uint8)
    for at, image in enumerate(pixels):
        made = geometry.apply(Image.fromarray(image[:, :, 0] if grey else image), f"image {at}")
        x[at] = np.asarray(made).reshape(x.shape[1:])
    resized = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
    source = f"{dataset.source} | resized to {x.shape[1]} x {x.shape[2]}"
    notes = proportions_note(geometry, [(height, width)] * len(dataset))
    return replace(dataset, x=resized, source=source, notes=(*dataset.notes, *notes))


def _grey(x: Tensor) -> Tensor:
    if x.dtype == torch.uint8:
        parts = x.to(torch.int64) * torch.tensor(_LUMA).reshape(1, 3, 1, 1)
        return ((parts.sum(1, keepdim=True) + 0x8000) >> 16).to(torch.uint8)
    return (x * (torch.tensor(_LUMA) / 65536).reshape(1, 3, 1, 1)).sum(1, keepdim=True)
