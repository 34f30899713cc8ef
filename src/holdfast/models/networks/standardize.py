"""Per-image standardisation, which makes a network invariant to the brightness and contrast of its input."""

import math

from torch import Tensor


def standardize(x: Tensor) -> Tensor:
    """Standardise each image of `x`, in [0, 1], to zero mean and unit deviation over C, H, W; same shape as `x`.

    (x - mean) / max(std, floor) with floor = 1 / (255 sqrt(N)), N = C H W. `tf.image.per_image_standardization` has
    the floor 1 / sqrt(N) for pixels in 0..255; this is the same floor for pixels in [0, 1]. If std exceeds it,
    standardize(a x) = standardize(x) for every a > 0.

    The floor is applied to the variance, before the square root. The values are the same, and derivatives of every
    order stay finite on constant images, where the square root of a zero variance has no derivative.
    """
    floor = 1 / (255 * math.sqrt(math.prod(x.shape[1:])))
    centred = x - x.mean(dim=(1, 2, 3), keepdim=True)
    variance = centred.square().mean(dim=(1, 2, 3), keepdim=True)
    return centred / variance.clamp_min(floor**2).sqrt()
