"""Our method, and its first version."""

from functools import partial

from torch import nn

from holdfast.attribution import IntegratedGradients, centred_logit, make_map, true_logit
from holdfast.losses import CrossEntropy, FlattenedCosine, MapCosine, PredictionKL
from holdfast.objective.objective import Objective, Term
from holdfast.recipes.inner import AT_X, AT_X_ADV, first_layer, search, somewhere


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
    layer: str | None = None,
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
    another map; `layer` names the layer of Grad-CAM. The mean logit moves the map of the true logit and no prediction,
    so training against that map would lower the distance without stabilising what the network uses. The flattened
    cosine holds Kendall's tau, the cosine of the maps themselves the top-k intersection; `peak` is the share of the
    latter. `weight` sets the trade-off between accuracy and stable maps; `weight=0` is TRADES.

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
        explained = make_map(map, steps=ig_steps, samples=ig_steps, layer=layer, score=centred_logit)
        distance = FlattenedCosine(attribution=explained, beta=None, through_clean=True, power=power, peak=peak)
        terms.append(Term(weight * distance, somewhere(eps), name="map"))
    return Objective(model, terms + first_layer(eps, dead_zone, filter_spread), reduction=reduction, name="erar_plus")


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
    terms += first_layer(eps, dead_zone, filter_spread)
    return Objective(model, terms, reduction=reduction, name="erar_plus_v1")
