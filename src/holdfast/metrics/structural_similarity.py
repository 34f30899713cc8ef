"""Structural similarity of two maps (Wang et al. 2004), with the settings used for saliency maps."""

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.metrics.maps import by_maximum, or_nan, spatial

WINDOW = 5
_C1, _C2 = 0.01**2, 0.03**2


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Mean structural similarity of two maps [B, H, W], each divided by its maximum first.

    Uniform windows of 5 x 5 pixels that lie inside the map, unbiased variances, a value range of 1, K1 = 0.01 and
    K2 = 0.03: `skimage.metrics.structural_similarity(win_size=5, data_range=1)`. Maps with fewer than five rows or
    columns use the largest odd window that fits. NaN if a map has no mass or is not finite, or if no window of 3 x 3
    fits.

    >>> a = torch.zeros(1, 5, 5)
    >>> a[0, 2, 2] = 1
    >>> ssim(a, a), ssim(a, a.roll(1, dims=2)).item() < 0.1
    (tensor([1.], dtype=torch.float64), True)
    """
    a, b = spatial(a, b)
    side = min(WINDOW, *a.shape[1:])
    side -= (side + 1) % 2
    u, v, valid = by_maximum(a, b)
    if side < 3 or not a.shape[0]:
        return torch.full((a.shape[0],), torch.nan, dtype=torch.float64, device=a.device)
    mean_u, mean_v, uu, vv, uv = (_local_mean(m, side) for m in (u, v, u * u, v * v, u * v))
    unbiased = side**2 / (side**2 - 1)
    var_u, var_v = unbiased * (uu - mean_u.square()), unbiased * (vv - mean_v.square())
    covariance = unbiased * (uv - mean_u * mean_v)
    luminance = (2 * mean_u * mean_v + _C1) / (mean_u.square() + mean_v.square() + _C1)
    structure = (2 * covariance + _C2) / (var_u + var_v + _C2)
    return or_nan((luminance * structure).mean((1, 2)).clamp(-1, 1), valid)


def _local_mean(a: Tensor, side: int) -> Tensor:
    return F.avg_pool2d(a[:, None], side, stride=1)[:, 0]
