"""Attribution maps: which pixels a prediction depends on. All are differentiable to second order.

Equation numbers are those of *Enhanced Regularizers for Attributional Robustness* ("the paper"). Imports `engine` and
`models`.
"""

from holdfast.attribution.base import GradientMap, Maps
from holdfast.attribution.captum_map import CaptumMap, from_captum
from holdfast.attribution.gradcam import GradCAM
from holdfast.attribution.gradcam_plus_plus import GradCAMPlusPlus
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.input_x_gradient import InputXGradient
from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.quadrature import RULES
from holdfast.attribution.registry import MAPS, make_map
from holdfast.attribution.saliency import map_of, saliency_map
from holdfast.attribution.scores import (
    SCORES,
    ClassLogit,
    ClassProbability,
    centred_logit,
    margin,
    most_confusing,
    score_of,
    true_logit,
    true_loss,
    true_probability,
)
from holdfast.attribution.smoothgrad import SmoothGrad

__all__ = [
    "MAPS",
    "RULES",
    "SCORES",
    "CaptumMap",
    "ClassLogit",
    "ClassProbability",
    "GradCAM",
    "GradCAMPlusPlus",
    "Gradient",
    "GradientMap",
    "InputXGradient",
    "IntegratedGradients",
    "Maps",
    "SmoothGrad",
    "centred_logit",
    "from_captum",
    "make_map",
    "map_of",
    "margin",
    "most_confusing",
    "saliency_map",
    "score_of",
    "true_logit",
    "true_loss",
    "true_probability",
]
