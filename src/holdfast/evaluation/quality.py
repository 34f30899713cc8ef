"""Quality of maps. A constant map cannot be changed by an attack, so robustness alone is not enough.

`map_quality` computes all measures for one batch; `runs/quality.py` has the title, range and direction of each. The
curves are in `curves.py`, the imputation in `road.py`, the random perturbations in `stability.py`, the randomised
network in `controls.py`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast import metrics, rng
from holdfast.attacks.balls import Ball
from holdfast.attacks.base import ExplanationAttack
from holdfast.attribution.base import GradientMap
from holdfast.attribution.saliency import map_of, saliency_map
from holdfast.engine.modes import evaluating
from holdfast.evaluation.controls import image_map, shuffled_weights
from holdfast.evaluation.curves import probability_curve
from holdfast.evaluation.road import road
from holdfast.evaluation.stability import CAPTUM_BALL, random_stability, sensitivity
from holdfast.runs.quality import QUALITY
from holdfast.types import Attribution, Model

SAMPLES = 10
"""Random samples of max-sensitivity, RIS and ROS; captum's default."""

SMALLEST_RATIO = 1e-12
"""Smaller values of RIS and ROS count as this, so that their logarithm is finite."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """One number per example and measure, float64 [B]; NaN where the measure is not defined for an example.

    `natural_spearman` is None without a natural network, `completeness` without a map that has this property, and the
    measures of the attacked map without an attack.
    """

    insertion: Tensor
    deletion: Tensor
    road_morf: Tensor
    road_lerf: Tensor
    max_sensitivity: Tensor
    ris: Tensor
    ros: Tensor
    randomised: Tensor
    image_spearman: Tensor
    natural_spearman: Tensor | None = None
    completeness: Tensor | None = None
    adv_insertion: Tensor | None = None
    adv_deletion: Tensor | None = None
    insertion_change: Tensor | None = None
    deletion_change: Tensor | None = None
    attacked_sensitivity: Tensor | None = None

    def measured(self) -> dict[str, Tensor]:
        """The measures that were computed, by name, in the order of the table."""
        found = {name: getattr(self, name) for name in QUALITY}
        return {name: values for name, values in found.items() if values is not None}


@torch.no_grad()
def map_quality(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    attribution: Attribution,
    *,
    keys: Tensor | None = None,
    attack: ExplanationAttack | None = None,
    x_adv: Tensor | None = None,
    ball: Ball | None = None,
    natural: Model | None = None,
    natural_map: Attribution | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
) -> Quality:
    """Compute all quality measures of the maps of `model` for one batch.

    `attack` perturbs the images for the measures of the attacked map, unless `x_adv` holds what it found before, with
    the clean image where it failed. The random samples are taken in `ball`, by
    default that of the attack (without it, captum's). `natural_map` is the map that is compared with the one of the
    network `natural`, by default `attribution`. `keys` [B] determine all noise; by default they are made from the seed
    and the place in the batch. `seed` shuffles the weights.
    """
    keys = rng.make_keys(seed, torch.arange(x.shape[0], device=x.device)) if keys is None else keys
    ball = ball or (attack.ball if attack is not None else None) or CAPTUM_BALL
    found = x_adv
    if found is None and attack is not None:
        with torch.enable_grad():
            found = attack(model, x, y, keys=keys)
    with evaluating(model):
        raw = attribution(model, x, y).detach()
        maps = saliency_map(raw)
        curves = _curves(model, x, y, maps)
        stability = random_stability(model, x, y, attribution, keys=keys, ball=ball, samples=samples)
        return Quality(
            **curves,
            road_morf=road(model, x, y, maps, keys=keys, most_first=True),
            road_lerf=road(model, x, y, maps, keys=keys, most_first=False),
            max_sensitivity=stability.max_sensitivity,
            ris=stability.ris.clamp_min(SMALLEST_RATIO).log10(),
            ros=stability.ros.clamp_min(SMALLEST_RATIO).log10(),
            randomised=agreement(maps, shuffled_weights(model, seed), x, y, attribution),
            image_spearman=metrics.spearman_rho(maps, image_map(x)),
            natural_spearman=None if natural is None else _same_map(model, natural, x, y, natural_map or attribution),
            completeness=attribution.relative_gap(model, x, y) if isinstance(attribution, GradientMap) else None,
            **({} if found is None else _attacked(model, x, y, attribution, found, raw, curves)),
        )


def agreement(maps: Tensor, other: Model, x: Tensor, y: Tensor, attribution: Attribution) -> Tensor:
    """Spearman's rho [B] between `maps` and the maps of another network for the same images."""
    with evaluating(other):
        return metrics.spearman_rho(maps, map_of(other, x, y, attribution))


def _same_map(model: Model, other: Model, x: Tensor, y: Tensor, attribution: Attribution) -> Tensor:
    return agreement(map_of(model, x, y, attribution), other, x, y, attribution)


def _curves(model: nn.Module, x: Tensor, y: Tensor, maps: Tensor) -> dict[str, Tensor]:
    """Insertion and deletion [B] in the order of `maps`."""
    kinds = {"insertion": True, "deletion": False}
    return {name: probability_curve(model, x, y, maps, insert=insert) for name, insert in kinds.items()}


def _attacked(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    attribution: Attribution,
    x_adv: Tensor,
    raw: Tensor,
    clean_curves: dict[str, Tensor],
) -> dict[str, Tensor]:
    """Measures of the map of x_adv; NaN for misclassified images. A failed attack leaves the clean map."""
    moved = attribution(model, x_adv, y).detach()
    maps = saliency_map(moved)
    curves = _curves(model, x, y, maps)
    found = {
        **{f"adv_{name}": values for name, values in curves.items()},
        **{f"{name}_change": values - clean_curves[name] for name, values in curves.items()},
        "attacked_sensitivity": sensitivity(raw, moved),
    }
    tried = model(x).argmax(1) == y
    return {name: torch.where(tried, values, torch.nan) for name, values in found.items()}
