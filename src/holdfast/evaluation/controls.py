"""Control maps: how stable a map is that knows nothing about what the network has learnt, under the same attack.

image      |x| summed over channels. It changes exactly as much as the image does, and no network is involved.
shuffled   the map of the same network with the entries of every weight tensor in random order.

If a network's maps are no more stable than these, their stability says nothing about its training. A map that agrees
with |x| almost everywhere is stable because the image is.
"""

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from holdfast import metrics, rng
from holdfast.attribution.saliency import map_of, saliency_map
from holdfast.engine.modes import evaluating
from holdfast.metrics.registry import shown
from holdfast.runs.controls import AGREEMENT, IMAGE, SHUFFLED, column
from holdfast.types import Attribution, Model


def image_map(x: Tensor) -> Tensor:
    """The image itself as a map [B, H, W]: |x| summed over channels, normalised like every map.

    >>> image_map(torch.tensor([[[[0.25, 0.75]]]]))
    tensor([[[0.5000, 1.5000]]])
    """
    return saliency_map(x)


@torch.no_grad()
def control_scores(
    maps: Tensor,
    x: Tensor,
    x_adv: Tensor,
    y: Tensor,
    *,
    k: int,
    images: Mapping[str, Tensor] | None = None,
    attribution: Attribution | None = None,
    shuffled: Model | None = None,
) -> dict[str, Tensor]:
    """Headline metrics of each control map between x and x_adv, and its agreement with the clean `maps` [B, H, W].

    The keys are the columns of `runs.controls`, each value is float64 [B]. The agreement is Spearman's rho. An attack
    that reports a metric of other images than x_adv has them in `images`, by metric. The control with shuffled weights
    needs `attribution` and `shuffled`, the network of `shuffled_weights`.
    """
    found = {}
    for name, map_control in _control_maps(attribution, shuffled).items():
        before, after = (map_control(image, y) for image in (x, x_adv))
        for metric in shown("headline"):
            moved = (images or {}).get(metric.name, x_adv)
            other = (moved != x_adv).flatten(1).any(1)  # most images are the same; their maps are computed once
            judged = after
            if bool(other.any()):
                judged = after.clone()
                judged[other] = map_control(moved[other], y[other])
            found[column(name, metric.name)] = metric(before, judged, k=k)
        found[column(name, AGREEMENT)] = metrics.spearman_rho(maps, before)
    return found


def _control_maps(
    attribution: Attribution | None, shuffled: Model | None
) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Control map -> function of images and labels that computes it."""
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {IMAGE: lambda x, y: image_map(x)}
    if shuffled is None or attribution is None:
        return found

    def of_shuffled(x: Tensor, y: Tensor) -> Tensor:
        with evaluating(shuffled):
            return map_of(shuffled, x, y, attribution)

    return found | {SHUFFLED: of_shuffled}


@torch.no_grad()
def shuffled_if_possible(
    model: nn.Module, x: Tensor, y: Tensor, attribution: Attribution, *, seed: int
) -> nn.Module | None:
    """`shuffled_weights`, or None if the network cannot be copied or its copy has no map; x and y are for a trial."""
    try:
        other = shuffled_weights(model, seed)
        with evaluating(other):
            map_of(other, x, y, attribution)
    except Exception:  # code of users: modules that refuse to be copied, maps that are tied to one network
        return None
    return other


def shuffled_weights(model: nn.Module, seed: int) -> nn.Module:
    """A copy of the network with the entries of every parameter in keyed random order; shapes stay the same."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for number, parameter in enumerate(other.parameters()):
            flat = parameter.reshape(1, -1)
            key = rng.make_keys(seed, torch.tensor([number], device=parameter.device))
            order = rng.uniform(key, flat.double()).argsort(dim=1)
            parameter.copy_(flat.gather(1, order).reshape(parameter.shape))
    return other
