"""IGR, integrated gradients regularizer (Wang and Kong 2022)."""

from torch import nn

from holdfast.attribution import true_probability
from holdfast.losses import AttributionCosine
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X_ADV, search


def igr(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    weight: float = 1.0,
    ig_steps: int = 50,
    reduction: str = "mean",
) -> Objective:
    """IGR, integrated gradients regularizer (Wang and Kong 2022).

        minimised in the weights:  CE(x') + weight (1 - cos(IG(x0, x), IG(x0, x')))
        maximised in the input:    CE(x')

    IG(x0, x) explains the true probability from the baseline x0, with `ig_steps` points. `eps`, `attack_steps` and
    `step_size` set the radius of the L-infinity ball and the number and size of PGD steps. `reduction` is "mean" or
    "sum" over the batch.
    """
    attack = search(AT_X_ADV, eps, attack_steps, step_size)
    outer = AT_X_ADV + weight * AttributionCosine(steps=ig_steps, score=true_probability)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="igr")
