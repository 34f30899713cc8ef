"""Certified pixels of a smoothed map: pixels that stay among the top k, or stay outside (Anani et al. 2025).

A pixel of a noisy copy is 1 if it is among the top k pixels of the copy's map, else 0. The smoothed label of a pixel is
the more frequent value. If its probability is at least tau > 1/2, it is the more frequent one for every image within

    R = sigma Phi^-1(tau)

of x in the Euclidean norm.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.certificates.binomial import clopper_pearson_lower
from holdfast.errors import expected

ABSTAIN = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class PixelCertificate:
    """Smoothed label of every pixel, int8 [B, P]: 1 in the top k, 0 outside, -1 where the certificate abstains.

    It holds within `radius` in the Euclidean norm. `radii` [B, P] has the largest radius of each pixel, 0 where none is
    certified; all radii of an example hold together.
    """

    labels: Tensor
    radius: float
    radii: Tensor

    @property
    def certified(self) -> Tensor:
        """Share of certified pixels, float64 [B]."""
        return (self.labels != ABSTAIN).double().mean(1)

    @property
    def certified_top(self) -> Tensor:
        """Number of pixels that are certified to stay among the top k of most noisy copies, float64 [B]."""
        return (self.labels == 1).double().sum(1)


def certify_pixels(
    first: Tensor, first_draws: int, rest: Tensor, rest_draws: int, *, sigma: float, alpha: float, tau: float = 0.75
) -> PixelCertificate:
    """The certificate from the successes [B, P] in the first draws, which choose the label, and in all other draws.

    A pixel is certified if the one-sided binomial test rejects "the label has a probability below tau" at the level
    alpha / P (Bonferroni over the P pixels), which is the case if the Clopper-Pearson bound reaches tau. The
    certificate of an example is wrong with probability at most `alpha`.

    >>> found = certify_pixels(
    ...     torch.tensor([[10, 0, 5]]), 10, torch.tensor([[90, 0, 50]]), 90, sigma=0.25, alpha=0.001
    ... )
    >>> found.labels.tolist(), round(found.radius, 3)
    ([[1, 0, -1]], 0.169)
    """
    if not 0.5 < tau < 1:
        raise expected("0.5 < tau < 1", got=tau)
    label = (2 * first > first_draws).cpu()
    agreements = torch.where(label, rest.cpu(), rest_draws - rest.cpu())
    lower = clopper_pearson_lower(agreements, rest_draws, alpha / rest.shape[1])
    labels = torch.where(lower >= tau, label, ABSTAIN).to(torch.int8)
    radii = sigma * torch.special.ndtri(lower).clamp_min(0)
    return PixelCertificate(labels=labels, radius=pixel_radius(sigma, tau), radii=radii)


def pixel_radius(sigma: float, tau: float) -> float:
    """R = sigma Phi^-1(tau).

    >>> round(pixel_radius(0.15, 0.75), 2)
    0.1
    """
    return sigma * float(torch.special.ndtri(torch.tensor(tau, dtype=torch.float64)))
