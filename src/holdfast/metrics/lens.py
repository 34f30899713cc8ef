"""LENS: top-k agreement that forgives small shifts (Kamath et al. 2024, "Rethinking Robustness of Model Attributions").

T_k(a) is the set of the k largest pixels of a map, and N_w(T) is the set of all pixels within `radius` w of T, a window
of 2w + 1 pixels in each direction that ends at the border of the image. Dilation raises the agreement of any two maps;
`holdfast.metrics.chance.lens` gives the value of two random sets, which belongs beside every LENS number.
"""

import torch  # noqa: F401 - for the doctest
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import expected
from holdfast.metrics.maps import or_nan, rankable, spatial
from holdfast.metrics.top_k import top_k_mask


def lens_recall(a: Tensor, b: Tensor, k: int, radius: int = 1) -> Tensor:
    """|N_w(T_k(a)) and T_k(b)| / k: share of the top pixels of b that lie near a top pixel of a.

    `radius` 0 gives the top-k intersection.

    >>> a, b = torch.zeros(2, 1, 1, 5)
    >>> a[..., 0], b[..., 1] = 1, 1
    >>> lens_recall(a, b, k=1), lens_recall(a, b, k=1, radius=0)
    (tensor([1.], dtype=torch.float64), tensor([0.], dtype=torch.float64))
    """
    a, b = spatial(a, b)
    flat_a, flat_b, valid = rankable(a, b)
    near = dilate(top_k_mask(flat_a, k).reshape(a.shape), radius).flatten(1)
    return or_nan((near & top_k_mask(flat_b, k)).sum(1).double() / k, valid)


def lens_precision(a: Tensor, b: Tensor, k: int, radius: int = 1) -> Tensor:
    """|T_k(a) and N_w(T_k(b))| / k: share of the top pixels of a that lie near a top pixel of b.

    >>> a, b = torch.zeros(2, 1, 1, 5)
    >>> a[..., :2], b[..., 2:4] = 1, 1
    >>> lens_precision(a, b, k=2)
    tensor([0.5000], dtype=torch.float64)
    """
    return lens_recall(b, a, k, radius)


def dilate(mask: Tensor, radius: int) -> Tensor:
    """Boolean [B, H, W]: all pixels at most `radius` rows and columns away from a pixel of `mask` [B, H, W]."""
    check_radius(radius)
    if not mask.numel():
        return mask
    return F.max_pool2d(mask[:, None].float(), 2 * radius + 1, stride=1, padding=radius)[:, 0] > 0


def check_radius(radius: int) -> None:
    """Raise unless the radius of a window is at least 0."""
    if radius < 0:
        raise expected("radius >= 0", got=radius)
