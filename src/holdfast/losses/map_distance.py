"""Losses of the map: distances between the saliency maps of the perturbed and the clean image.

A larger value means more damage, so attacks ascend these losses. The clean map and its top pixels come from the network
itself. The map of the perturbed image comes from the softplus surrogate with sharpness `beta`, since the map of a ReLU
network has no useful derivative. `beta=None` uses the network itself, for networks that are already smooth.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attribution.base import GradientMap
from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.saliency import map_of, saliency_map
from holdfast.engine.ops import flatten
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapPath, MapRequest
from holdfast.metrics.center import center_of_mass
from holdfast.metrics.rank_correlation import kendall_tau
from holdfast.metrics.top_k import top_k_mask
from holdfast.types import Attribution, Model, Pair

FLOOR = 1e-2
"""Added to a map (of mean 1) before it is raised to a power, since the derivative at zero would be infinite."""


def _clean_map(model: Model, pair: Pair, attribution: Attribution, *, graph: bool = False) -> Tensor:
    """The map of the clean image, computed only if it must be differentiated or is not cached."""
    if graph:
        return map_of(model, pair.x, pair.y, attribution, graph=True)
    known = pair.maps.find(attribution)
    if known is None:
        known = map_of(model, pair.x, pair.y, attribution)
        pair.maps.store(attribution, known)
    return known


@dataclass(frozen=True, kw_only=True)
class MapLoss(Loss):
    """Base class of the losses of the map: the attribution, and the sharpness of the surrogate."""

    attribution: Attribution = field(default_factory=lambda: IntegratedGradients(steps=100))
    beta: float | None = 1.0
    part: ClassVar[str] = "map"
    """The name of the value in the log."""

    @abstractmethod
    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        """[B], from the map [B, H, W] of the perturbed image and the clean side."""

    def remember(self, clean_map: Tensor) -> Clean:
        """The clean side, from the clean map [B, H, W] of the network itself."""
        return {"map": clean_map}

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        if self.requests:
            shown = saliency_map(context.map(self.requests[0]))
        else:  # a user-defined attribution
            pair, graph = context.pair, torch.is_grad_enabled()
            shown = map_of(context.model, pair.x_adv, pair.y, self.attribution, beta=self.beta, graph=graph)
        return context.log(self.part, self.distance(shown, clean))

    def prepare(self, model: Model, pair: Pair) -> Clean:
        return self.remember(_clean_map(model, pair, self.attribution))

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        found = self.attribution
        if not isinstance(found, GradientMap):
            return ()
        return (MapRequest(path=MapPath.TO_PERTURBED, attribution=found, score=found.score, beta=self.beta),)

    @property
    def points(self) -> int:
        return int(getattr(self.attribution, "points", 1))

    @property
    def second_order(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class TopKMass(MapLoss):
    """Minus the mass of the map on the k largest pixels of the clean map (Ghorbani et al. 2019, top-k attack).

    The map has a constant sum P, so this equals the mass outside those pixels minus P. Computed in this form, the loss
    is exactly constant, with a gradient of exactly zero, while all mass lies inside (any digit with fewer than k bright
    pixels).
    """

    k: int

    def remember(self, clean_map: Tensor) -> Clean:
        return {"outside": ~top_k_mask(clean_map, self.k)}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        outside: Tensor = clean["outside"]
        return (flatten(shown) * outside).sum(1) - outside.shape[1]


@dataclass(frozen=True, kw_only=True)
class CenterShift(MapLoss):
    """Squared distance between the centres of mass of the perturbed and the clean map.

    The clean centre is rounded down to whole pixels, as in RAR.
    """

    def remember(self, clean_map: Tensor) -> Clean:
        return {"center": center_of_mass(clean_map).floor()}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        center: Tensor = clean["center"]
        return (center_of_mass(shown) - center).square().sum(1)


@dataclass(frozen=True, kw_only=True)
class TargetMass(MapLoss):
    """Mass of the map on the k largest pixels of a given map `target`, [H, W] or one per example [B, H, W]."""

    k: int
    target: Tensor

    def for_rows(self, rows: Tensor) -> "TargetMass":
        return replace(self, target=self.target[rows]) if self.target.dim() == 3 else self

    def remember(self, clean_map: Tensor) -> Clean:
        if self.target.shape not in (clean_map.shape, clean_map.shape[1:]):
            wanted = f"a target map of {list(clean_map.shape[1:])}, or one per image"
            raise expected(wanted, got=f"shape {list(self.target.shape)}")
        return {"inside": top_k_mask(self.target.to(clean_map).expand_as(clean_map), self.k)}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        inside: Tensor = clean["inside"]
        return (flatten(shown) * inside).sum(1)


@dataclass(frozen=True, kw_only=True)
class MapCosine(MapLoss):
    """1 - cosine of the clean and the perturbed map: a smooth substitute for rank agreement over all pixels.

    With `through_clean`, for training, the clean map is differentiated as well, so both maps move towards each other.
    """

    through_clean: bool = False
    part: ClassVar[str] = "map_cosine"

    def prepare(self, model: Model, pair: Pair) -> Clean:
        graph = self.through_clean and torch.is_grad_enabled()
        return self.remember(_clean_map(model, pair, self.attribution, graph=graph))

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        return 1 - torch.cosine_similarity(flatten(shown), flatten(clean["map"]), dim=1, eps=1e-12)


@dataclass(frozen=True, kw_only=True)
class FlattenedCosine(MapCosine):
    """`MapCosine` of (map + FLOOR)^power, mixed with that of the map itself.

        (1 - peak) (1 - cos((s + 0.01)^power, (s' + 0.01)^power)) + peak (1 - cos(s, s'))

    A power below 1 gives the many small entries more weight, as ranks do: it decides Kendall's tau. The cosine of the
    maps themselves is decided by the largest entries, as the top-k intersection is.
    """

    power: float = 0.5
    peak: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.power <= 1:
            raise expected("0 < power <= 1", got=self.power)
        if not 0 <= self.peak <= 1:
            raise expected("0 <= peak <= 1", got=self.peak)

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        flat = super().distance((shown + FLOOR) ** self.power, {"map": (clean["map"] + FLOOR) ** self.power})
        return flat if not self.peak else (1 - self.peak) * flat + self.peak * super().distance(shown, clean)


@dataclass(frozen=True, kw_only=True)
class SoftTopK(MapLoss):
    """Soft share of the clean top-k pixels that have left the top-k: mean of sigmoid((threshold - s_i) / width).

    The threshold is the k-th largest value of the perturbed map, treated as constant in the derivative. The width is
    `temperature` times the standard deviation of the map, so the loss does not depend on how peaked the map is.
    """

    k: int
    temperature: float = 0.5

    def remember(self, clean_map: Tensor) -> Clean:
        return {"inside": top_k_mask(clean_map, self.k)}

    def distance(self, shown: Tensor, clean: Clean) -> Tensor:
        shown, inside = flatten(shown), clean["inside"]
        threshold = shown.detach().topk(self.k, dim=1).values[:, -1:]
        width = self.temperature * shown.detach().std(1, keepdim=True, correction=0) + 1e-12
        left: Tensor = torch.sigmoid((threshold - shown) / width) * inside
        return left.sum(1) / self.k


@dataclass(frozen=True, kw_only=True)
class NoDirection(Loss):
    """Always zero, so that every step of an attack is a keyed random sign: the random control of an attack."""

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return flatten(context.pair.x_adv * 0).sum(1)


@dataclass(frozen=True, kw_only=True)
class KendallDrop(Loss):
    """Minus Kendall's tau between the clean and the perturbed map of the network itself.

    IFIA selects the best iterate by this loss. It is not differentiable and only for `best_by`. It is NaN for maps
    without a ranking, which are therefore never selected.
    """

    attribution: Attribution = field(default_factory=lambda: IntegratedGradients(steps=100))

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        shown = map_of(context.model, context.pair.x_adv, context.pair.y, self.attribution)
        context.perturbed_maps.store(self.attribution, shown)
        return -kendall_tau(clean["map"], shown)

    def prepare(self, model: Model, pair: Pair) -> Clean:
        return {"map": _clean_map(model, pair, self.attribution)}

    def unchanged(self, clean: Clean) -> Tensor:
        return -kendall_tau(clean["map"], clean["map"])
