"""R2ET, robust ranking explanation via thickness (Chen et al. 2024)."""

from torch import nn

from holdfast.losses import FiniteCurvature, TopKGap
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X


def r2et(
    model: nn.Module,
    *,
    k: int,
    gap_weight: float = 0.1,
    curvature_weight: float = 1.0,
    eta: float = 1e-3,
    reduction: str = "mean",
) -> Objective:
    """R2ET, robust ranking explanation via thickness (Chen et al. 2024).

        minimised in the weights:  CE(x) + gap_weight TopKGap(x) + curvature_weight FiniteCurvature(x)

    `holdfast.losses.TopKGap` is the size of the gradient of the cross-entropy on the k pixels behind the top k minus
    its size on the top k; `holdfast.losses.FiniteCurvature` is the change of that gradient along its sign, from a step
    `eta`. There is no search. The authors rescale both weights in every batch to a fixed share of the cross-entropy;
    here they are constants. `reduction` is "mean" or "sum" over the batch.
    """
    outer = AT_X + gap_weight * TopKGap(k=k) + curvature_weight * FiniteCurvature(eta=eta)
    return Objective(model, [Term(outer)], reduction=reduction, name="r2et")
