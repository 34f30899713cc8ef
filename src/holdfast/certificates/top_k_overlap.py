"""Certified overlap of the top pixels of a smoothed map (Levine et al. 2019).

The smoothed map z_i(x) is the probability that pixel i is among the top k pixels of the map of a noisy copy of x, with
noise N(0, sigma^2) at every pixel. It changes slowly: for |x' - x| <= rho in the Euclidean norm,

    |Phi^-1(z_i(x')) - Phi^-1(z_i(x))| <= rho / sigma,

so pixel i stays above pixel j while Phi^-1(z_i) - Phi^-1(z_j) > 2 rho / sigma.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.certificates.binomial import Bound, simultaneous_bounds
from holdfast.metrics.top_k import top_k_mask


@dataclass(frozen=True, kw_only=True, eq=False)
class OverlapCertificate:
    """Radii [B, k] in the Euclidean norm: within radii[b, i], at least i + 1 of the top k pixels of b stay.

    `inside` bool [B, P] marks these pixels. A radius is negative where nothing is certified.
    """

    inside: Tensor
    radii: Tensor

    def kept(self, radius: float) -> Tensor:
        """The certified share of the top k pixels, float64 [B], for every image within `radius` of x."""
        return (self.radii > radius).double().mean(1)


def certify_overlap(
    successes: Tensor, draws: int, k: int, *, sigma: float, alpha: float, bound: Bound = "clopper-pearson"
) -> OverlapCertificate:
    """The certificate from `successes` int [B, P]: noisy copies, out of `draws`, that have the pixel in their top k.

    It compares the top k pixels of the estimate at x with those of the exact smoothed map at x', and holds with
    probability at least 1 - `alpha` for each example.

    >>> found = certify_overlap(torch.tensor([[1000, 990, 10, 0]]), 1000, k=2, sigma=0.25, alpha=0.001)
    >>> found.radii.round(decimals=2)
    tensor([[0.5900, 0.4800]], dtype=torch.float64)
    >>> found.kept(0.5)
    tensor([0.5000], dtype=torch.float64)
    """
    lower, upper = simultaneous_bounds(successes, draws, alpha, bound)
    inside = top_k_mask(successes.cpu(), k)
    margins = overlap_margins(torch.special.ndtri(lower), torch.special.ndtri(upper), inside)
    return OverlapCertificate(inside=inside, radii=margins * (sigma / 2))


def overlap_margins(lower: Tensor, upper: Tensor, inside: Tensor) -> Tensor:
    """Margins [B, k]: where entry i is positive, at least i + 1 of the k pixels `inside` [B, P] are in the top k.

    `lower` and `upper` [B, P] bound the values of a map. If only i of the k pixels were left, the other k - i would
    all lie below k - i pixels from outside. The most favourable choice for that are the k - i lowest pixels inside, of
    which the highest has the (i + 1)-th largest lower bound, and the k - i highest outside, of which the lowest has the
    (k - i)-th largest upper bound:

        margin_i = lower_(i + 1) - upper_(k - i) > 0  excludes it.

    For maps whose bounds have the order of the map this is the count of Levine et al., pixel i against 2 k - i + 1.
    """
    (examples, pixels), k = inside.shape, int(inside[0].sum())
    low = lower.masked_select(inside).reshape(examples, k).sort(dim=1, descending=True).values
    high = upper.masked_select(~inside).reshape(examples, pixels - k).sort(dim=1, descending=True).values
    high = high[:, :k].flip(1)
    sure = k - high.shape[1]  # so many pixels stay for want of pixels outside that could replace them
    margins = torch.cat([low.new_full((examples, sure), torch.inf), low[:, sure:] - high], dim=1)
    return margins.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)


def possible_overlap(lower: Tensor, upper: Tensor, inside: Tensor) -> Tensor:
    """The largest share of the k pixels `inside` [B, P] that can be in the top k, float64 [B], given the bounds.

    A pixel is out if the lower bounds of k others exceed its upper bound.
    """
    k = int(inside[0].sum())
    threshold = lower.topk(k, dim=1).values[:, -1:]
    return ((upper >= threshold) & inside).sum(1).double() / k
