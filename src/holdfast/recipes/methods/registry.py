"""Registry of the training methods. To add one, write it in a file of its own and list it here."""

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

_METHODS = (
    natural,
    madry,
    trades,
    ig_norm,
    ig_sum_norm,
    art,
    erar,
    igr,
    lga,
    r2et,
    adv_aat,
    curvature,
    erar_plus,
    erar_plus_v1,
)
METHODS = {method.__name__: method for method in _METHODS}
"""Registry of the training methods by name."""
