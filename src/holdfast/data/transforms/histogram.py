"""Per-channel histogram equalisation, as the papers' released code applies it to GTSRB (OpenCV's equalizeHist).

Let cdf(v) be the number of pixels of a channel with value at most v, v0 the smallest value that occurs and P the number
of pixels. Then v becomes round(255 (cdf(v) - cdf(v0)) / (P - cdf(v0))), in float32, with halves rounded to even. A
constant channel is unchanged.
"""

from dataclasses import replace

import torch
from torch import Tensor

from holdfast.data.dataset import Dataset
from holdfast.engine.ops import flatten

_CHUNK = 1 << 22  # entries processed at once, to limit the memory of the int64 copies


def equalize(dataset: Dataset) -> Dataset:
    """Equalise the histogram of each channel of each image to the range 0..255."""
    images_at_once = max(1, _CHUNK // max(1, dataset.x[:1].numel()))
    parts = [equalize_images(part) for part in torch.split(dataset.x, images_at_once)]
    return replace(dataset, x=torch.cat(parts), source=f"{dataset.source} | equalize")


def equalize_images(x: Tensor) -> Tensor:
    """Equalise uint8 images [B, C, H, W], each channel separately.

    >>> equalize_images(torch.tensor([[[[10, 10, 20, 30]]]], dtype=torch.uint8)).flatten().tolist()
    [0, 0, 128, 255]
    """
    channels = flatten(x.flatten(0, 1)).long()  # [B·C, P]
    pixels = channels.shape[1]
    counts = torch.zeros(len(channels), 256, dtype=torch.int64).scatter_add_(1, channels, torch.ones_like(channels))
    cdf = counts.cumsum(1)
    lowest = cdf.gather(1, (counts > 0).long().argmax(1, keepdim=True))  # cdf(v0), [B·C, 1]
    spread = pixels - lowest
    scale = 255 / spread.clamp(min=1).float()
    table = ((cdf - lowest).float() * scale).round()
    equalized = table.gather(1, channels)
    return torch.where(spread == 0, channels.float(), equalized).to(torch.uint8).reshape(x.shape)
