"""ART, attributional robustness training (Singh et al. 2019)."""

from torch import nn

from holdfast.losses import AlignmentTriplet
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X_ADV, search


def art(
    model: nn.Module,
    *,
    eps: float,
    step_size: float,
    k: int,
    attack_steps: int = 3,
    weight: float = 0.5,
    beta: float = 50.0,
    channels: str = "signed",
    mean: float = 0.0,
    std: float = 1.0,
    reduction: str = "mean",
) -> Objective:
    """ART, attributional robustness training (Singh et al. 2019).

        minimised in the weights:  CE(x') + weight T(x, x'),    T = log(1 + exp(-(d_neg - d_pos)))
        maximised in the input:    T(x, x') on the k entries with the largest |gradient|

    d_pos and d_neg are distances 1 - cos between image and gradient of the true and of the strongest other logit, see
    `holdfast.losses.AlignmentTriplet`. `beta` is the sharpness of the softplus surrogate. `channels` is "signed" or
    "absolute-mean". `mean` and `std` are the normalisation of the network. `eps`, `attack_steps` and `step_size` set
    the radius of the L-infinity ball and the number and size of PGD steps. `reduction` is "mean" or "sum" over the
    batch.
    """
    triplet = AlignmentTriplet(beta=beta, channels=channels, mean=mean, std=std)
    on_top_k = AlignmentTriplet(beta=beta, channels=channels, mean=mean, std=std, k=k)
    attack = search(on_top_k, eps, attack_steps, step_size)
    return Objective(model, [Term(AT_X_ADV + weight * triplet, attack)], reduction=reduction, name="art")
