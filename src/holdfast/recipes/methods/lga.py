"""LGA, local gradient alignment (Joo et al. 2023). g(x) is the gradient of the true logit."""

from torch import nn

from holdfast.losses import GradientAlignment
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X, somewhere


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
