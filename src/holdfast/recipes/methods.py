"""The named training methods of the papers: what is descended in the weights, what is ascended in the input.

Each takes the model and its settings and returns an `Objective`. eps, step_size and attack_steps describe the inner
search (L-infinity, random start); `*_ig_steps` are points of integrated gradients. Equation numbers are the paper's.
"""

from functools import partial

from torch import nn

from holdfast.attacks.balls import Linf
from holdfast.attacks.pgd import LAST, PGD
from holdfast.attribution import IntegratedGradients, true_logit, true_probability
from holdfast.losses import (
    CACR,
    WACR,
    AlignmentTriplet,
    AttributionCosine,
    CrossEntropy,
    DeadZone,
    FilterSpread,
    FlattenedCosine,
    IGNorm,
    Loss,
    MapCosine,
    PredictionKL,
)
from holdfast.objective.objective import Objective, Term

AT_X = CrossEntropy(at="clean")
AT_X_ADV = CrossEntropy(at="perturbed")


def _search(loss: Loss, eps: float, attack_steps: int, step_size: float) -> PGD:
    """The inner maximisation of training: random start, fixed number of steps, last iterate."""
    return PGD(loss, ball=Linf(eps), steps=attack_steps, step_size=step_size, random_start=True, best_by=LAST)


def natural(model: nn.Module, *, reduction: str = "mean") -> Objective:
    """CE(x)."""
    return Objective(model, [Term(AT_X)], reduction=reduction, name="natural")


def madry(model: nn.Module, *, eps: float, attack_steps: int, step_size: float, reduction: str = "mean") -> Objective:
    """CE(x') with x' ascending CE (Madry et al. 2018)."""
    attack = _search(AT_X_ADV, eps, attack_steps, step_size)
    return Objective(model, [Term(AT_X_ADV, attack)], reduction=reduction, name="madry")


def trades(
    model: nn.Module, *, eps: float, attack_steps: int, step_size: float, weight: float = 6.0, reduction: str = "mean"
) -> Objective:
    """CE(x) + weight KL(f(x) || f(x')) with x' ascending the KL (Zhang et al. 2019)."""
    attack = _search(PredictionKL(), eps, attack_steps, step_size)
    return Objective(model, [Term(AT_X + weight * PredictionKL(), attack)], reduction=reduction, name="trades")


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
    """RAR, IG-NORM: CE(x) + lam |IG(x, x')|_1 with x' ascending the norm alone (Chen et al. 2019)."""
    attack = _search(IGNorm(steps=attack_ig_steps), eps, attack_steps, step_size)
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
    """RAR, IG-SUM-NORM: CE(x') + lam |IG(x, x')|_1 with x' ascending the same sum (Chen et al. 2019)."""
    attack = _search(AT_X_ADV + lam * IGNorm(steps=attack_ig_steps), eps, attack_steps, step_size)
    outer = AT_X_ADV + lam * IGNorm(steps=ig_steps)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="ig_sum_norm")


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
    """ART: CE(x') + weight triplet, x' ascending the triplet on its top-k entries (Singh et al. 2019)."""
    triplet = AlignmentTriplet(beta=beta, channels=channels, mean=mean, std=std)
    on_top_k = AlignmentTriplet(beta=beta, channels=channels, mean=mean, std=std, k=k)
    attack = _search(on_top_k, eps, attack_steps, step_size)
    return Objective(model, [Term(AT_X_ADV + weight * triplet, attack)], reduction=reduction, name="art")


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
    """ERAR: CE(x') + lam (lam_cacr CACR + lam_wacr WACR) (Eq. 10), x' ascending CE(x') + S(IG(x, x')) (Eq. 12).

    The ablations of the paper: only CACR (lam_wacr=0), only WACR (lam_cacr=0), coefficients 1 and 0.7, nca=False,
    base_attribution=False. A coefficient of 0 leaves the term out; nothing is computed for it.
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
    attack = _search(inner, eps, attack_steps, step_size)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="erar")


def igr(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    weight: float = 1.0,
    ig_steps: int = 50,
    reduction: str = "mean",
) -> Objective:
    """IGR: CE(x') + weight (1 - cos(IG(x), IG(x'))), x' from plain PGD (Wang and Kong 2022)."""
    attack = _search(AT_X_ADV, eps, attack_steps, step_size)
    outer = AT_X_ADV + weight * AttributionCosine(steps=ig_steps, score=true_probability)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="igr")


def erar_plus(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    weight: float = 4.0,
    attack_weight: float = 3.0,
    beta: float = 5.0,
    ig_steps: int = 5,
    attack_ig_steps: int = 5,
    plain_share: float = 0.0,
    plain_steps: int | None = None,
    plain_step_size: float | None = None,
    dead_zone: float = 0.0,
    filter_spread: float = 0.0,
    power: float = 1.0,
    reduction: str = "mean",
) -> Objective:
    """Ours: CE(x') + weight (1 - cos) of the normalised maps of the true logit, the very maps that attacks move.

    x' ascends CE + attack_weight (1 - cos) on the softplus surrogate with sharpness `beta`. A share `plain_share` of
    the cross-entropy is taken at the x' of plain PGD instead, which keeps the accuracy under attack; with weight = 0
    all of it. `dead_zone` and `filter_spread` weigh two penalties on the first layer: it should not respond to pixels
    below eps, and each of its filters should look at few pixels, so that an attack cannot give attribution to black
    pixels. With a `power` below 1 the small entries of the maps count for more, as they do for ranks.
    """
    plain_share = plain_share if weight else 1.0
    cosine = MapCosine if power == 1 else partial(FlattenedCosine, power=power)
    terms = []
    if plain_share < 1:
        searched = IntegratedGradients(steps=attack_ig_steps, score=true_logit)
        inner = CrossEntropy(beta=beta) + attack_weight * cosine(attribution=searched, beta=beta)
        explained = IntegratedGradients(steps=ig_steps, score=true_logit)
        outer = (1 - plain_share) * AT_X_ADV + weight * cosine(attribution=explained, beta=None, through_clean=True)
        terms.append(Term(outer, _search(inner, eps, attack_steps, step_size)))
    if plain_share > 0:
        plain = _search(AT_X_ADV, eps, plain_steps or attack_steps, plain_step_size or step_size)
        terms.append(Term(plain_share * AT_X_ADV, plain, name="plain"))
    for size, penalty in ((dead_zone, DeadZone(level=eps)), (filter_spread, FilterSpread())):
        terms += [Term(size * penalty)] if size else []
    return Objective(model, terms, reduction=reduction, name="erar_plus")


METHODS = {
    method.__name__: method for method in (natural, madry, trades, ig_norm, ig_sum_norm, art, erar, igr, erar_plus)
}
"""Every training method by name; a new one is a function above and a word here."""
