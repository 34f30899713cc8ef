"""The ensemble of IFIA attacks of version 0.1."""

from holdfast.attacks import Ensemble
from holdfast.recipes.attacks.ifia import ifia
from holdfast.types import Attribution

VARIANTS: tuple[tuple[bool, float], ...] = ((False, 1.0), (True, 5.0))
"""(random start, sharpness of the surrogate) of the ensemble members: the reference, and a stronger one."""


def ifia_ensemble(
    *,
    eps: float,
    k: int,
    steps: int = 50,
    step_size: float | None = None,
    ig_steps: int = 100,
    search_ig_steps: int | None = None,
    eval_k: int | None = None,
    attribution: Attribution | None = None,
    kinds: tuple[str, ...] = ("topk", "center", "cosine", "soft-topk"),
    variants: tuple[tuple[bool, float], ...] = VARIANTS,
    restarts: int = 1,
    quantize: bool = False,
    chunk: int | None = None,
) -> Ensemble:
    """Ensemble of IFIA attacks: runs every kind in every variant and returns the worst result for each image.

    Each member is an `ifia` attack and maximises the loss D of its kind in the input (Eq. 3 of the paper). `kinds` are
    the kinds to run; `variants` are pairs (random start, sharpness of the surrogate). Members are named
    kind/start/beta. The worst result is the one with the smallest Kendall's tau. `step_size` defaults to
    2.5 eps / steps, so that each search can cross the ball. `restarts` applies to the members with a random start. The
    other settings are those of `ifia`.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="test").x[:2])
    >>> attack = ifia_ensemble(eps=0.1, steps=2, k=10, ig_steps=5, kinds=("topk", "cosine"))
    >>> result = attack.run(model, x, y=model(x).argmax(1), keys=torch.arange(2))
    >>> result.names
    ('topk/clean/beta=1', 'topk/random/beta=5', 'cosine/clean/beta=1', 'cosine/random/beta=5')
    >>> bool((result.worst.kendall <= result.members[0].scores.kendall).all())
    True
    """
    members = {
        f"{kind}/{'random' if start else 'clean'}/beta={beta:g}": ifia(
            eps=eps,
            step_size=2.5 * eps / max(1, steps) if step_size is None else step_size,
            steps=steps,
            k=k,
            ig_steps=ig_steps,
            search_ig_steps=search_ig_steps,
            kind=kind,
            eval_k=eval_k,
            attribution=attribution,
            beta=beta,
            random_start=start,
            restarts=restarts if start else 1,
            quantize=quantize,
            chunk=chunk,
        )
        for kind in kinds
        for start, beta in variants
    }
    return Ensemble(members=members)
