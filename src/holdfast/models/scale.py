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


@torch.no_grad()
def is_scale_invariant(model: Model, x: Tensor, *, scales: tuple[float, ...] = SCALES, tolerance: float = 1e-3) -> bool:
    """True when the logits of `model` at a x and at x agree for all `scales` a.

    The yardstick is how far the logits move when the image is turned upside down, not their size: a large bias would
    make any network look invariant. Where even that moves nothing there is no evidence, and the answer is False.
    """
    if not bool((x != 0).any()):
        raise expected("at least one image that is not all black", got="only zeros", fix="pass real images")
    reference = model(x)
    yardstick = (model(x.flip(tuple(range(2, x.dim())))) - reference).abs().amax()
    allowed = tolerance * yardstick
    return bool(yardstick > 0) and all(bool(((model(a * x) - reference).abs() <= allowed).all()) for a in scales)
