"""AdvAAT, adversarial attributional training (FAR, Ivankay et al. 2020)."""

from torch import nn

from holdfast.losses import AttributionPearson
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X_ADV, search


def adv_aat(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    weight: float = 1.0,
    ig_steps: int = 50,
    attack_ig_steps: int = 10,
    reduction: str = "mean",
) -> Objective:
    """AdvAAT, adversarial attributional training (FAR, Ivankay et al. 2020).

        minimised in the weights:  CE(x') + weight (1 - Pearson(IG(x0, x), IG(x0, x')))
        maximised in the input:    the same sum

    IG(x0, x) explains the true probability from the baseline x0, with `ig_steps` points in the minimised and
    `attack_ig_steps` points in the maximised loss. `eps`, `attack_steps` and `step_size` set the radius of the
    L-infinity ball and the number and size of PGD steps. `reduction` is "mean" or "sum" over the batch.
    """
    inner, outer = (AT_X_ADV + weight * AttributionPearson(steps=points) for points in (attack_ig_steps, ig_steps))
    attack = search(inner, eps, attack_steps, step_size)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="adv_aat")
