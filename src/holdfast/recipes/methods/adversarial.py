"""Natural training, adversarial training (Madry et al. 2018) and TRADES (Zhang et al. 2019)."""

from torch import nn

from holdfast.losses import PredictionKL
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X, AT_X_ADV, first_layer, search


def natural(model: nn.Module, *, reduction: str = "mean") -> Objective:
    """Natural training.

        minimised in the weights:  CE(x)

    There is no attack. `reduction` is "mean" or "sum" over the batch.
    """
    return Objective(model, [Term(AT_X)], reduction=reduction, name="natural")


def madry(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    dead_zone: float = 0.0,
    filter_spread: float = 0.0,
    reduction: str = "mean",
) -> Objective:
    """Adversarial training with PGD (Madry et al. 2018).

        minimised in the weights:  CE(x') + dead_zone DeadZone + filter_spread FilterSpread
        maximised in the input:    CE(x')

    `eps`, `attack_steps` and `step_size` set the radius of the L-infinity ball and the number and size of PGD steps.
    `dead_zone` and `filter_spread`, zero by default, weigh the penalties `holdfast.losses.DeadZone` and
    `holdfast.losses.FilterSpread` of the first layer: a control that shows what they change without a term on the maps.
    `reduction` is "mean" or "sum" over the batch.

    >>> import torch
    >>> import holdfast as hf
    >>> objective = madry(hf.models.build("digits-cnn", seed=0), eps=0.1, attack_steps=2, step_size=0.05)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> sorted(objective(x, y, keys=torch.arange(2)).parts)
    ['accuracy_perturbed', 'ce_perturbed', 'total']
    """
    terms = [
        Term(AT_X_ADV, search(AT_X_ADV, eps, attack_steps, step_size)),
        *first_layer(eps, dead_zone, filter_spread),
    ]
    return Objective(model, terms, reduction=reduction, name="madry")


def trades(
    model: nn.Module, *, eps: float, attack_steps: int, step_size: float, weight: float = 6.0, reduction: str = "mean"
) -> Objective:
    """TRADES (Zhang et al. 2019).

        minimised in the weights:  CE(x) + weight KL(softmax f(x) || softmax f(x'))
        maximised in the input:    KL(softmax f(x) || softmax f(x'))

    `eps`, `attack_steps` and `step_size` set the radius of the L-infinity ball and the number and size of PGD steps.
    `reduction` is "mean" or "sum" over the batch.
    """
    attack = search(PredictionKL(), eps, attack_steps, step_size)
    return Objective(model, [Term(AT_X + weight * PredictionKL(), attack)], reduction=reduction, name="trades")
