"""Natural training, adversarial training (Madry et al. 2018) and TRADES (Zhang et al. 2019)."""

from torch import nn

from holdfast.losses import PredictionKL
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X, AT_X_ADV, search


def natural(model: nn.Module, *, reduction: str = "mean") -> Objective:
    """Natural training.

        minimised in the weights:  CE(x)

    There is no attack. `reduction` is "mean" or "sum" over the batch.
    """
    return Objective(model, [Term(AT_X)], reduction=reduction, name="natural")


def madry(model: nn.Module, *, eps: float, attack_steps: int, step_size: float, reduction: str = "mean") -> Objective:
    """Adversarial training with PGD (Madry et al. 2018).

        minimised in the weights:  CE(x')
        maximised in the input:    CE(x')

    `eps`, `attack_steps` and `step_size` set the radius of the L-infinity ball and the number and size of PGD steps.
    `reduction` is "mean" or "sum" over the batch.

    >>> import torch
    >>> import holdfast as hf
    >>> objective = madry(hf.models.build("digits-cnn", seed=0), eps=0.1, attack_steps=2, step_size=0.05)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> sorted(objective(x, y, keys=torch.arange(2)).parts)
    ['accuracy_perturbed', 'ce_perturbed', 'total']
    """
    attack = search(AT_X_ADV, eps, attack_steps, step_size)
    return Objective(model, [Term(AT_X_ADV, attack)], reduction=reduction, name="madry")


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
