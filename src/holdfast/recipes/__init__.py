"""The attacks and training methods of the papers, composed of losses and PGD, and the registry of attacks.

Imports `objective`, `attacks`, `losses`, `attribution` and `runs`.
"""

from holdfast.recipes.attacks.ifia import KINDS, ifia
from holdfast.recipes.attacks.ifia_ensemble import ifia_ensemble
from holdfast.recipes.attacks.prediction import apgd, apgd_pair, fgsm, pgd, pgd_margin
from holdfast.recipes.attacks.strongest import THOROUGH, strongest
from holdfast.recipes.attacks.universal import universal
from holdfast.recipes.methods.adv_aat import adv_aat
from holdfast.recipes.methods.adversarial import madry, natural, trades
from holdfast.recipes.methods.art import art
from holdfast.recipes.methods.curvature import curvature
from holdfast.recipes.methods.erar import erar
from holdfast.recipes.methods.erar_plus import erar_plus, erar_plus_v1
from holdfast.recipes.methods.igr import igr
from holdfast.recipes.methods.lga import lga
from holdfast.recipes.methods.r2et import r2et
from holdfast.recipes.methods.rar import ig_norm, ig_sum_norm
from holdfast.recipes.methods.registry import METHODS
from holdfast.recipes.protocols import ATTACKS, AttackSettings, make_attacks

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
