"""The result of a certification: certificates, the attack beside them, and a summary for people and for files."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.certificates.binomial import clopper_pearson_upper, simultaneous_bounds
from holdfast.certificates.gradient_bounds import GradientBounds
from holdfast.certificates.pixels import ABSTAIN, PixelCertificate
from holdfast.certificates.settings import CertifySettings
from holdfast.certificates.smoothed_attack import SmoothedAttack
from holdfast.certificates.soft_stability import SoftStability
from holdfast.certificates.top_k_overlap import OverlapCertificate, possible_overlap
from holdfast.report.certificates import describe

POINTS = 41
"""Points of the curve of the certified overlap in `summary`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientCertificate:
    """Interval bounds of the plain gradient, the certified share of its top k pixels, and the attacked share, [B]."""

    bounds: GradientBounds
    kept: Tensor
    attacked: Tensor | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Certificates:
    """Certificates of a batch of B images; tensors are on the CPU and have one entry per example.

    `smoothed` [B, H, W] is the smoothed map: the share of noisy copies that have the pixel among the top `k` of their
    map. `overlap`, `pixels` and `attack` concern this map, `stability` the prediction from its top patches, and
    `gradient` the plain gradient; it is None for networks that are not sequential.
    """

    settings: CertifySettings
    k: int
    smoothed: Tensor
    overlap: OverlapCertificate
    pixels: PixelCertificate
    stability: SoftStability
    gradient: GradientCertificate | None
    attack: SmoothedAttack | None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        attacked = "attacked" if self.attack else "not attacked"
        about = f"k={self.k}, sigma={self.settings.sigma:g}, {self.settings.draws} noisy copies, {attacked}"
        return f"Certificates({len(self.smoothed)} images, {about})"

    @property
    def attacked(self) -> Tensor | None:
        """Share of the top k pixels of the smoothed map that the attack leaves, float64 [B, R], by radius."""
        return None if self.attack is None else self.attack.kept(self.overlap.inside)

    @property
    def attacked_at_most(self) -> Tensor | None:
        """The largest share [B, R] that the exact smoothed map can keep at the attacked image, given the noise.

        `attacked` is an estimate from a finite number of copies. This bound is wrong with probability at most `alpha`.
        """
        if self.attack is None:
            return None
        found = []
        for counts in self.attack.counts:
            lower, upper = simultaneous_bounds(counts, self.attack.draws, self.settings.alpha, "clopper-pearson")
            found.append(possible_overlap(lower, upper, self.overlap.inside))
        return torch.stack(found, dim=1)

    @property
    def attacked_pixels(self) -> Tensor | None:
        """Share of pixels with the same smoothed label at the attacked image at the radius of `pixels`, [B]."""
        if self.attack is None:
            return None
        before = 2 * self.smoothed.flatten(1) > 1
        return (before == (2 * self._at_pixel_radius() > self.attack.draws)).double().mean(1)

    @property
    def contradictions(self) -> int:
        """Certificates that the attack refutes beyond the error of its own estimate; 0 unless something is wrong."""
        if self.attack is None or self.attacked_at_most is None:
            return 0
        certified = torch.stack([self.overlap.kept(radius) for radius in self.attack.radii], dim=1)
        labels, counts, n = self.pixels.labels, self._at_pixel_radius(), self.attack.draws
        agree = torch.where(labels == 1, counts, n - counts)
        likely = clopper_pearson_upper(agree, n, self.settings.alpha / labels.shape[1])
        flipped = (labels != ABSTAIN) & (likely < 0.5)
        return int((self.attacked_at_most < certified - 1e-9).sum()) + int(flipped.any(1).sum())

    def _at_pixel_radius(self) -> Tensor:
        assert self.attack is not None
        return self.attack.counts[self.attack.radii.index(self.pixels.radius)]

    def summary(self) -> dict[str, Any]:
        """Medians over the images and values per image, in JSON types."""
        settings, attack = self.settings, self.attack
        ends = [settings.sigma, *(attack.radii if attack else ())]
        radii = sorted({*(max(ends) * i / (POINTS - 1) for i in range(POINTS)), *ends})
        certified = torch.stack([self.overlap.kept(radius) for radius in radii], dim=1)
        return {
            "n": len(self.smoothed),
            "map": type(settings.attribution).__name__,
            "sigma": settings.sigma,
            "draws": settings.draws,
            "alpha": settings.alpha,
            "k": self.k,
            "bound": settings.bound,
            "overlap": {"radii": radii, "median": _median(certified), "per_image": _rounded(certified)},
            "pixels": {
                "radius": self.pixels.radius,
                "tau": settings.tau,
                "median": _median(self.pixels.certified),
                "per_image": _rounded(self.pixels.certified),
                "top_median": _median(self.pixels.certified_top),
                "attacked_median": _median(self.attacked_pixels),
            },
            "attack": None
            if attack is None
            else {
                "radii": list(attack.radii),
                "steps": settings.attack_steps,
                "median": _median(self.attacked),
                "at_most_median": _median(self.attacked_at_most),
                "per_image": _rounded(self.attacked),
                "contradictions": self.contradictions,
            },
            "stability": {
                "median": _median(self.stability.rate),
                "per_image": _rounded(self.stability.rate),
                "samples": self.stability.samples,
                "error": self.stability.error,
                "doubt": self.stability.doubt,
                "patches": self.stability.grid**2,
                "shown": self.stability.shown,
                "radius": self.stability.radius,
            },
            "gradient": None
            if self.gradient is None
            else {
                "eps": self.gradient.bounds.eps,
                "median": _median(self.gradient.kept),
                "per_image": _rounded(self.gradient.kept),
                "ordered_pairs_median": _median(self.gradient.bounds.ordered_pairs),
                "attacked_median": _median(self.gradient.attacked),
            },
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join(describe(self.summary()))


def _median(values: Tensor | None) -> Any:
    """The median over the images: a number for [B], a list for [B, R], None for None."""
    return None if values is None else values.quantile(0.5, dim=0).tolist()


def _rounded(values: Tensor | None) -> Any:
    return None if values is None else values.double().mul(1e4).round().div(1e4).tolist()
