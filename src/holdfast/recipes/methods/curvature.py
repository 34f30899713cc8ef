"""Curvature regularization (Dombrowski et al. 2022). H is the Hessian of the true logit."""

from torch import nn

from holdfast.losses import Curvature
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X


def curvature(model: nn.Module, *, weight: float = 1e-3, beta: float = 3.0, reduction: str = "mean") -> Objective:
    """Curvature regularization (Dombrowski et al. 2022).

        minimised in the weights:  CE(x) + weight |H v|^2,      v standard normal

    The mean of |H v|^2 is the squared Frobenius norm of H. The presets train a softplus network, as the authors do. In
    a ReLU network, H is that of the softplus surrogate with sharpness `beta`; a network that is smooth already is used
    as it is. `reduction` is "mean" or "sum" over the batch.
    """
    return Objective(model, [Term(AT_X + weight * Curvature(beta=beta))], reduction=reduction, name="curvature")
