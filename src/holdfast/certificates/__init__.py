"""Certificates of explanations: what no perturbation within a radius can change, with the attack that tries.

All but the interval bounds concern the smoothed map, computed from noisy copies of the image. Imports `attacks`,
`attribution`, `losses`, `metrics`, `models`, `engine` and `storage`.
"""

from holdfast.certificates.binomial import (
    BOUNDS,
    clopper_pearson_lower,
    clopper_pearson_upper,
    hoeffding_margin,
    simultaneous_bounds,
)
from holdfast.certificates.certify import certify
from holdfast.certificates.gradient_bounds import GradientBounds, gradient_bounds
from holdfast.certificates.noisy_maps import NoisyMaps, TopPixels
from holdfast.certificates.pixels import PixelCertificate, certify_pixels
from holdfast.certificates.result import Certificates, GradientCertificate
from holdfast.certificates.settings import CertifySettings
from holdfast.certificates.smoothed_attack import SmoothedAttack, SmoothedMapAttack
from holdfast.certificates.soft_map import SoftSmoothedMap
from holdfast.certificates.soft_stability import SoftStability, soft_stability
from holdfast.certificates.top_k_overlap import OverlapCertificate, certify_overlap

__all__ = [
    "BOUNDS",
    "Certificates",
    "CertifySettings",
    "GradientBounds",
    "GradientCertificate",
    "NoisyMaps",
    "OverlapCertificate",
    "PixelCertificate",
    "SmoothedAttack",
    "SmoothedMapAttack",
    "SoftSmoothedMap",
    "SoftStability",
    "TopPixels",
    "certify",
    "certify_overlap",
    "certify_pixels",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "gradient_bounds",
    "hoeffding_margin",
    "simultaneous_bounds",
    "soft_stability",
]
