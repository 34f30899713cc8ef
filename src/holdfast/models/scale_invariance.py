"""Tests whether a network ignores brightness, f(a x) = f(x).

Networks that standardise each image internally have this property. Integrated gradients from a black baseline then
need one gradient instead of m (see `holdfast.attribution.integrated`).
"""

import torch
from torch import Tensor

from holdfast.errors import expected
from holdfast.types import Model

SCALES = (0.5, 0.1, 0.02)
"""Scales to test: down to 1/50 of the brightness, the first point of a 50-point path."""


def is_scale_invariant(model: Model, x: Tensor, *, scales: tuple[float, ...] = SCALES, tolerance: float = 1e-4) -> bool:
    """True if the logits of `model` at a x and at x agree for all `scales` a and every image of x.

    All-black images are ignored, because they carry no information; a batch without other images is rejected.
    """
    bright = x[(x != 0).flatten(1).any(1)]
    if bright.shape[0] == 0:
        raise expected("at least one image that is not all black", got="only zeros", fix="pass real images")
    return bool(scale_invariant_images(model, bright, scales=scales, tolerance=tolerance).all())


@torch.no_grad()
def scale_invariant_images(
    model: Model, x: Tensor, *, scales: tuple[float, ...] = SCALES, tolerance: float = 1e-4
) -> Tensor:
    """bool [B]: the images for which f(a x) = f(x) at all `scales` a.

    The change of the logits is measured relative to their change when the image is flipped along all spatial axes, not
    relative to their size: a large bias would make any network look invariant. If the flip changes nothing, there is no
    evidence and the result is False. Images of very low contrast may fail although the network standardises them,
    because its floor on the standard deviation takes effect when they are darkened.
    """
    reference = model(x)
    yardstick = (model(x.flip(tuple(range(2, x.dim())))) - reference).abs().amax(1)
    furthest = torch.stack([(model(a * x) - reference).abs().amax(1) for a in scales]).amax(0)
    return (yardstick > 0) & (furthest <= tolerance * yardstick)
