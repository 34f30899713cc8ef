"""Does the network ignore brightness: f(a x) = f(x)?

Networks that standardise each image inside have this property. Integrated gradients from a black baseline then
need one gradient instead of m (see `holdfast.attribution.integrated`).
"""

import torch
from torch import Tensor

from holdfast.errors import expected
from holdfast.types import Model

SCALES = (0.5, 0.1, 0.02)
"""Down to 1/50 of the brightness, the first point of a 50-point path."""


def is_scale_invariant(model: Model, x: Tensor, *, scales: tuple[float, ...] = SCALES, tolerance: float = 1e-4) -> bool:
    """True when the logits of `model` at a x and at x agree for all `scales` a, for every image of x.

    An all-black image says nothing, so a batch of nothing else is refused.
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

    The yardstick is how far the logits move when the image is turned upside down, not their size: a large bias would
    make any network look invariant. Where even that moves nothing there is no evidence, and the answer is False.
    Images of very low contrast may fail although the network standardises, because its floor on the standard
    deviation bites when they are darkened.
    """
    reference = model(x)
    yardstick = (model(x.flip(tuple(range(2, x.dim())))) - reference).abs().amax(1)
    furthest = torch.stack([(model(a * x) - reference).abs().amax(1) for a in scales]).amax(0)
    return (yardstick > 0) & (furthest <= tolerance * yardstick)
