"""RAR, robust attribution regularization (Chen et al. 2019): IG-NORM and IG-SUM-NORM."""

from torch import nn

from holdfast.losses import IGNorm
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X, AT_X_ADV, search


def ig_norm(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    lam: float = 1.0,
    ig_steps: int = 50,
    attack_ig_steps: int = 10,
    reduction: str = "mean",
) -> Objective:
    """RAR with the objective IG-NORM (Chen et al. 2019).

        minimised in the weights:  CE(x) + lam |IG(x, x')|_1
        maximised in the input:    |IG(x, x')|_1

    IG(x, x') explains the cross-entropy along the path from x to x', with `ig_steps` points in the minimised and
    `attack_ig_steps` points in the maximised loss. `eps`, `attack_steps` and `step_size` set the radius of the
    L-infinity ball and the number and size of PGD steps. `reduction` is "mean" or "sum" over the batch.
    """
    attack = search(IGNorm(steps=attack_ig_steps), eps, attack_steps, step_size)
    outer = AT_X + lam * IGNorm(steps=ig_steps)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="ig_norm")


def ig_sum_norm(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    lam: float = 0.1,
    ig_steps: int = 50,
    attack_ig_steps: int = 10,
    reduction: str = "mean",
) -> Objective:
    """RAR with the objective IG-SUM-NORM (Chen et al. 2019).

        minimised in the weights:  CE(x') + lam |IG(x, x')|_1
        maximised in the input:    CE(x') + lam |IG(x, x')|_1

    IG(x, x') explains the cross-entropy along the path from x to x', with `ig_steps` points in the minimised and
    `attack_ig_steps` points in the maximised loss. `eps`, `attack_steps` and `step_size` set the radius of the
    L-infinity ball and the number and size of PGD steps. `reduction` is "mean" or "sum" over the batch.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> objective = ig_sum_norm(model, eps=0.1, attack_steps=2, step_size=0.05, ig_steps=4, attack_ig_steps=2)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> sorted(objective(x, y, keys=torch.arange(2)).parts)
    ['accuracy_perturbed', 'ce_perturbed', 'ig_norm', 'total']
    """
    attack = search(AT_X_ADV + lam * IGNorm(steps=attack_ig_steps), eps, attack_steps, step_size)
    outer = AT_X_ADV + lam * IGNorm(steps=ig_steps)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="ig_sum_norm")
