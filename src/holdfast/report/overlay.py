"""Maps in colour: alone, and laid over their image."""

import base64
import io

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

STOPS = (
    (0, 0, 4),
    (31, 12, 72),
    (85, 15, 109),
    (136, 34, 106),
    (186, 54, 85),
    (227, 89, 51),
    (249, 140, 10),
    (249, 201, 50),
    (252, 255, 164),
)
"""Colours of a map from 0 to the top of its scale, evenly spaced: dark violet, red, orange, light yellow."""

DIM, COVER = 0.75, 0.9
"""Brightness of the image under a map, and how much of it the brightest colour covers."""


def heat_table() -> Pixels:
    """The colour [256, 3] of each level of a map."""
    levels = np.linspace(0, len(STOPS) - 1, 256)
    channels = [np.interp(levels, np.arange(len(STOPS)), channel) for channel in zip(*STOPS, strict=True)]
    table: Pixels = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return table


def overlay(image: Pixels, saliency: Pixels) -> Pixels:
    """The map [H, W] in colour over the image [H, W] or [H, W, 3] in grey; pixels that do not matter stay grey.

    >>> image, saliency = np.full((1, 2), 200, np.uint8), np.array([[0, 255]], np.uint8)
    >>> overlay(image, saliency).tolist()
    [[[150, 150, 150], [242, 244, 163]]]
    """
    grey = image.astype(np.float64) if image.ndim == 2 else image.astype(np.float64) @ [0.299, 0.587, 0.114]
    share = saliency.astype(np.float64)[..., None] / 255
    covered = COVER * np.sqrt(share)
    mixed = (1 - covered) * DIM * grey[..., None] + covered * heat_table()[saliency]
    covered_image: Pixels = np.rint(mixed).astype(np.uint8)
    return covered_image


def png_uri(pixels: Pixels, *, heat: bool = False) -> str:
    """Pixels [H, W] or [H, W, 3] as a PNG `data:` address; with `heat`, levels [H, W] in the colours of a map."""
    from PIL import Image

    picture = Image.fromarray(pixels)
    if heat:
        picture = Image.frombytes("P", picture.size, pixels.tobytes())
        picture.putpalette(heat_table().tobytes())
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
