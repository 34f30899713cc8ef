"""The named attacks and training methods of the papers as compositions of the parts below."""

from holdfast.recipes.attacks import fgsm, ifia, ifia_ensemble, pgd, pgd_margin
from holdfast.recipes.methods import METHODS, art, erar, erar_plus, ig_norm, ig_sum_norm, igr, madry, natural, trades

__all__ = [
    "METHODS",
    "art",
    "erar",
    "erar_plus",
    "fgsm",
    "ifia",
    "ifia_ensemble",
    "ig_norm",
    "ig_sum_norm",
    "igr",
    "madry",
    "natural",
    "pgd",
    "pgd_margin",
    "trades",
]
