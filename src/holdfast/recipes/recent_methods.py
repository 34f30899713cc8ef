"""Training methods for stable explanations published since the paper. The notation is that of `recipes.methods`.

g(x)    the gradient of the true logit
H       the Hessian of the true logit
"""

from torch import nn

from holdfast.losses import AttributionPearson, Curvature, FiniteCurvature, GradientAlignment, TopKGap
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X, AT_X_ADV, search, somewhere


def lga(
    model: nn.Module, *, eps: float, l2_weight: float = 0.01, cosine_weight: float = 1.0, reduction: str = "mean"
) -> Objective:
    """LGA, local gradient alignment (Joo et al. 2023).

        minimised in the weights:  CE(x) + l2_weight |g(x) - g(x')|^2 + cosine_weight (1 - cos(g(x), g(x'))) / 2

    x' is sampled uniformly from the L-infinity ball of radius `eps`, and g(x) is a constant. The authors train and
    evaluate networks with softplus activations of sharpness 3, and so do the presets. `reduction` is "mean" or "sum"
    over the batch.

    >>> import torch
    >>> import holdfast as hf
    >>> objective = lga(hf.models.build("digits-cnn", seed=0), eps=0.1)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> [name for name in sorted(objective(x, y, keys=torch.arange(2)).parts) if "accuracy" not in name]
    ['ce_clean', 'gradient_cosine', 'gradient_l2', 'total']
    """
    aligned = GradientAlignment(l2_weight=l2_weight, cosine_weight=cosine_weight)
    return Objective(model, [Term(AT_X + aligned, somewhere(eps))], reduction=reduction, name="lga")


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


def curvature(model: nn.Module, *, weight: float = 1e-3, beta: float = 3.0, reduction: str = "mean") -> Objective:
    """Curvature regularization (Dombrowski et al. 2022).

        minimised in the weights:  CE(x) + weight |H v|^2,      v standard normal

    The mean of |H v|^2 is the squared Frobenius norm of H. The presets train a softplus network, as the authors do. In
    a ReLU network, H is that of the softplus surrogate with sharpness `beta`; a network that is smooth already is used
    as it is. `reduction` is "mean" or "sum" over the batch.
    """
    return Objective(model, [Term(AT_X + weight * Curvature(beta=beta))], reduction=reduction, name="curvature")
