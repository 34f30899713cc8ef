"""ERAR, the method of the paper: CACR and WACR."""

from torch import nn

from holdfast.losses import CACR, WACR, IGNorm, Loss
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X_ADV, search


def erar(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    lam: float = 1.0,
    lam_cacr: float = 1.0,
    lam_wacr: float = 1.0,
    ig_steps: int = 50,
    attack_ig_steps: int = 10,
    attack_lam: float = 1.0,
    scale: float = 1.0,
    change: str = "difference",
    negative: str = "endpoint",
    granularity: str = "pixel",
    wacr_granularity: str | None = None,
    size: str = "l1",
    nca: bool = True,
    base_attribution: bool = True,
    reduction: str = "mean",
) -> Objective:
    """ERAR, the method of the paper (Eqs. 10 and 12).

        minimised in the weights:  CE(x') + lam (lam_cacr CACR(x') + lam_wacr WACR(x, x'))
        maximised in the input:    CE(x') + attack_lam S(IG(x, x'))

    IG(x, x') explains the cross-entropy along the path from x to x'. `ig_steps` and `attack_ig_steps` are the points of
    integrated gradients in the minimised and in the maximised loss. `scale`, `negative`, `granularity` and `nca` are
    settings of `holdfast.losses.CACR`; `change`, `wacr_granularity` (default: `granularity`), `size` and
    `base_attribution` are settings of `holdfast.losses.WACR`. `size` also selects S in the maximised loss. `eps`,
    `attack_steps` and `step_size` set the radius of the L-infinity ball and the number and size of PGD steps.
    `reduction` is "mean" or "sum" over the batch.

    The ablations of the paper are: only CACR (`lam_wacr=0`), only WACR (`lam_cacr=0`), coefficients 1 and 0.7,
    `nca=False`, `base_attribution=False`. A term with coefficient 0 is omitted and not computed.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> objective = erar(model, eps=0.1, attack_steps=2, step_size=0.05, ig_steps=4, attack_ig_steps=2)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> parts = objective(x, y, keys=torch.arange(2)).parts
    >>> [name for name in sorted(parts) if name.startswith(("ce", "kl", "wacr"))]
    ['ce_perturbed', 'kl_nca', 'kl_tca', 'wacr_p1', 'wacr_p2']
    """
    outer: Loss = AT_X_ADV
    if lam * lam_cacr:
        cacr = CACR(steps=ig_steps, scale=scale, negative=negative, granularity=granularity, nca=nca)
        outer = outer + lam * lam_cacr * cacr
    if lam * lam_wacr:
        outer = outer + lam * lam_wacr * WACR(
            steps=ig_steps,
            change=change,
            granularity=wacr_granularity or granularity,
            size=size,
            base_attribution=base_attribution,
        )  # fmt: skip
    inner = AT_X_ADV + attack_lam * IGNorm(steps=attack_ig_steps, size=size)
    attack = search(inner, eps, attack_steps, step_size)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="erar")
