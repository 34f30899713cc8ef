"""The training methods of the papers. Each takes the model and its settings and returns an `Objective`.

A method minimises one loss in the weights, at an image x' that maximises another loss in the input. Notation:

    f(x)         the logits
    CE(x)        cross-entropy, -log softmax(f(x))_y
    IG(x, x')    integrated gradients of the cross-entropy along the path from x to x'
    IG(x0, x)    integrated gradients of the true probability along the path from the baseline x0 to x
    S            a size function, the L1 norm by default

The settings that the methods share:

    eps, attack_steps, step_size    PGD for x': radius of the L-infinity ball, number and size of the steps. The start
                                    is random, the last iterate is used, and x' is a constant for the weights.
    ig_steps, attack_ig_steps       points of integrated gradients in the minimised and in the maximised loss
    reduction                       "mean" or "sum" (released code) over the batch

Equation numbers are those of *Enhanced Regularizers for Attributional Robustness* ("the paper").
"""

from functools import partial

from torch import nn

from holdfast.attribution import IntegratedGradients, centred_logit, make_map, true_logit, true_probability
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
from holdfast.recipes.inner import AT_X, AT_X_ADV, search, somewhere
from holdfast.recipes.recent_methods import adv_aat, curvature, lga, r2et


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
    """IGR, integrated gradients regularizer (Wang and Kong 2022).

        minimised in the weights:  CE(x') + weight (1 - cos(IG(x0, x), IG(x0, x')))
        maximised in the input:    CE(x')

    IG(x0, x) explains the true probability from the baseline x0, with `ig_steps` points. `eps`, `attack_steps` and
    `step_size` set the radius of the L-infinity ball and the number and size of PGD steps. `reduction` is "mean" or
    "sum" over the batch.
    """
    attack = search(AT_X_ADV, eps, attack_steps, step_size)
    outer = AT_X_ADV + weight * AttributionCosine(steps=ig_steps, score=true_probability)
    return Objective(model, [Term(outer, attack)], reduction=reduction, name="igr")


def erar_plus(
    model: nn.Module,
    *,
    eps: float,
    attack_steps: int,
    step_size: float,
    weight: float = 4.0,
    trades_weight: float = 6.0,
    power: float = 0.5,
    peak: float = 0.5,
    map: str = "ig",  # noqa: A002 - the name of the setting
    ig_steps: int = 5,
    dead_zone: float = 0.0,
    filter_spread: float = 0.0,
    reduction: str = "mean",
) -> Objective:
    """Our method: TRADES, and the distance of the maps of the centred logit at a random point of the ball.

        minimised in the weights:  CE(x) + trades_weight KL(softmax f(x) || softmax f(x'))
                                   + weight ((1 - peak) (1 - cos(I(x)^power, I(x'')^power))
                                             + peak (1 - cos(I(x), I(x''))))
                                   + dead_zone DeadZone + filter_spread FilterSpread
        maximised in the input:    KL(softmax f(x) || softmax f(x'))    in x'

    x'' is sampled uniformly from the ball, so the map term needs no search. I is the normalised saliency map of the
    centred logit (the true logit minus the mean logit); 0.01 is added to it before it is raised to `power`. `map` names
    it (`holdfast.attribution.MAPS`): integrated gradients with `ig_steps` points, SmoothGrad with as many samples, or
    another map. The mean logit moves the map of the true logit and no prediction, so training against that map would
    lower the distance without stabilising what the network uses. The flattened cosine holds Kendall's tau, the cosine
    of the maps themselves the top-k intersection; `peak` is the share of the latter. `weight` sets the trade-off
    between accuracy and stable maps; `weight=0` is TRADES.

    `dead_zone` and `filter_spread` weigh the penalties `holdfast.losses.DeadZone` and `holdfast.losses.FilterSpread` of
    the first layer. `eps`, `attack_steps` and `step_size` set the radius of the L-infinity ball and the number and size
    of PGD steps. `reduction` is "mean" or "sum" over the batch.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> objective = erar_plus(model, eps=0.1, attack_steps=2, step_size=0.05)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> parts = objective(x, y, keys=torch.arange(2)).parts
    >>> [name for name in sorted(parts) if "accuracy" not in name]
    ['ce_clean', 'kl_prediction', 'map/map_cosine', 'total']
    """
    terms = [Term(AT_X + trades_weight * PredictionKL(), search(PredictionKL(), eps, attack_steps, step_size))]
    if weight:
        explained = make_map(map, steps=ig_steps, samples=ig_steps, score=centred_logit)
        distance = FlattenedCosine(attribution=explained, beta=None, through_clean=True, power=power, peak=peak)
        terms.append(Term(weight * distance, somewhere(eps), name="map"))
    return Objective(model, terms + _first_layer(eps, dead_zone, filter_spread), reduction=reduction, name="erar_plus")


def _first_layer(eps: float, dead_zone: float, filter_spread: float) -> list[Term]:
    penalties = ((dead_zone, DeadZone(level=eps)), (filter_spread, FilterSpread()))
    return [Term(size * penalty) for size, penalty in penalties if size]


def erar_plus_v1(
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
    """Our first method: trains the saliency maps of the true logit at an x' that changes them.

        minimised in the weights:  (1 - plain_share) CE(x') + weight (1 - cos(I(x), I(x')))
                                   + plain_share CE(x'') + dead_zone DeadZone + filter_spread FilterSpread
        maximised in the input:    CE(x') + attack_weight (1 - cos(I(x), I(x')))    in x', on the softplus surrogate
                                   CE(x'')                                          in x'' (plain PGD)

    I is the normalised saliency map of integrated gradients, with `ig_steps` points in the minimised and
    `attack_ig_steps` points in the maximised loss. `beta` is the sharpness of the surrogate. With a `power` below 1 the
    cosine uses (I + 0.01)^power, which gives small entries more weight, as ranks do.

    `plain_share` is the share of the cross-entropy at x'', which keeps the accuracy under attack. With `weight=0` it is
    1. `plain_steps` and `plain_step_size` default to `attack_steps` and `step_size`.

    `holdfast.losses.DeadZone` penalises a first layer that responds to pixels below eps. `holdfast.losses.FilterSpread`
    penalises filters that depend on many pixels. Both make it harder for an attack to give attribution to black pixels.

    `eps`, `attack_steps` and `step_size` set the radius of the L-infinity ball and the number and size of PGD steps.
    `reduction` is "mean" or "sum" over the batch.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> objective = erar_plus_v1(model, eps=0.1, attack_steps=2, step_size=0.05, plain_share=0.5)
    >>> x, y = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8), torch.tensor([3, 7])
    >>> parts = objective(x, y, keys=torch.arange(2)).parts
    >>> [name for name in sorted(parts) if "accuracy" not in name]
    ['ce_perturbed', 'map_cosine', 'plain/ce_perturbed', 'total']
    """
    plain_share = plain_share if weight else 1.0
    cosine = MapCosine if power == 1 else partial(FlattenedCosine, power=power)
    terms = []
    if plain_share < 1:
        searched = IntegratedGradients(steps=attack_ig_steps, score=true_logit)
        inner = CrossEntropy(beta=beta) + attack_weight * cosine(attribution=searched, beta=beta)
        explained = IntegratedGradients(steps=ig_steps, score=true_logit)
        outer = (1 - plain_share) * AT_X_ADV + weight * cosine(attribution=explained, beta=None, through_clean=True)
        terms.append(Term(outer, search(inner, eps, attack_steps, step_size)))
    if plain_share > 0:
        plain = search(AT_X_ADV, eps, plain_steps or attack_steps, plain_step_size or step_size)
        terms.append(Term(plain_share * AT_X_ADV, plain, name="plain"))
    terms += _first_layer(eps, dead_zone, filter_spread)
    return Objective(model, terms, reduction=reduction, name="erar_plus_v1")


_METHODS = (
    natural,
    madry,
    trades,
    ig_norm,
    ig_sum_norm,
    art,
    erar,
    igr,
    lga,
    r2et,
    adv_aat,
    curvature,
    erar_plus,
    erar_plus_v1,
)
METHODS = {method.__name__: method for method in _METHODS}
"""Registry of the training methods by name. To add one, write a function and list it."""
