"""Maps that say which pixels a prediction rests on, differentiable to second order."""

from holdfast.attribution.engine import Target
from holdfast.attribution.gradients import Gradient, InputXGradient, SmoothGrad
from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.maps import saliency_map
from holdfast.attribution.quadrature import RULES
from holdfast.attribution.scores import (
    ClassLogit,
    ClassProbability,
    margin,
    most_confusing,
    true_logit,
    true_loss,
    true_probability,
)

__all__ = [
    "RULES",
    "ClassLogit",
    "ClassProbability",
    "Gradient",
    "InputXGradient",
    "IntegratedGradients",
    "SmoothGrad",
    "Target",
    "margin",
    "most_confusing",
    "saliency_map",
    "true_logit",
    "true_loss",
    "true_probability",
]
