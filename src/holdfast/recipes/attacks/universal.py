"""A universal perturbation: one for all images."""

from torch import Tensor

from holdfast.attacks import ProposalAttack, fit_universal
from holdfast.attacks.balls import Linf
from holdfast.attribution import GradientMap, IntegratedGradients, centred_logit
from holdfast.recipes.attacks.strongest import members
from holdfast.types import Attribution, Model


def universal(
    model: Model,
    x: Tensor,
    y: Tensor,
    *,
    keys: Tensor,
    eps: float,
    k: int,
    steps: int = 100,
    batch_size: int = 20,
    ig_steps: int = 50,
    search_ig_steps: int = 5,
    attribution: Attribution | None = None,
) -> ProposalAttack:
    """A universal perturbation: one delta for all images.

        maximised in delta:  the mean damage to the top-k of x + delta over the images x  over  |delta| <= eps

    It is found on the images `x` with labels `y` and applied to others, so use images that are not evaluated. The
    search starts from random signs and is that of the wide top-k member of `strongest`, with the mean gradient over
    `batch_size` images in each of `steps` steps. The map is that of the centred logit by default, with `ig_steps`
    points, and `search_ig_steps` in the search.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="train").x[:8])
    >>> attack = universal(model, x, model(x).argmax(1), keys=torch.arange(8), eps=0.1, k=10, steps=5)
    >>> attack.propose.delta.shape, bool((attack.propose.delta.abs() <= 0.1).all())
    (torch.Size([1, 1, 8, 8]), True)
    """
    explained = attribution or IntegratedGradients(steps=ig_steps, score=centred_logit)
    searched = explained.with_points(search_ig_steps) if isinstance(explained, GradientMap) else explained
    delta = fit_universal(
        model,
        x,
        y,
        keys=keys,
        member=members(k)[0],
        k=k,
        attribution=searched,
        ball=Linf(eps),
        steps=steps,
        batch_size=batch_size,
    )
    return ProposalAttack(propose=delta, attribution=explained, eval_k=k, ball=Linf(eps))
