"""The attacks and training methods of the papers, composed of losses and PGD, and the registry of attacks.

Imports `objective`, `attacks`, `losses`, `attribution` and `runs`.
"""

from holdfast.recipes.attacks import (
    KINDS,
    THOROUGH,
    apgd,
    apgd_pair,
    fgsm,
    ifia,
    ifia_ensemble,
    pgd,
    pgd_margin,
    strongest,
    universal,
)
from holdfast.recipes.methods import (
    METHODS,
    art,
    erar,
    erar_plus,
    erar_plus_v1,
    ig_norm,
    ig_sum_norm,
    igr,
    madry,
    natural,
    trades,
)
from holdfast.recipes.protocols import ATTACKS, AttackSettings, make_attacks
from holdfast.recipes.recent_methods import adv_aat, curvature, lga, r2et

__all__ = [
    "ATTACKS",
    "KINDS",
    "METHODS",
    "THOROUGH",
    "AttackSettings",
    "adv_aat",
    "apgd",
    "apgd_pair",
    "art",
    "curvature",
    "erar",
    "erar_plus",
    "erar_plus_v1",
    "fgsm",
    "ifia",
    "ifia_ensemble",
    "ig_norm",
    "ig_sum_norm",
    "igr",
    "lga",
    "madry",
    "make_attacks",
    "natural",
    "pgd",
    "pgd_margin",
    "r2et",
    "strongest",
    "trades",
    "universal",
]
