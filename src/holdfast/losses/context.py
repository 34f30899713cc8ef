"""`LossContext`: maps and logits that the losses of one sum share, computed once.

A loss declares the maps it needs. On the first request, the context computes all maps along the same path together. It
takes the logits at an image from a path that ends there. A context is used for one evaluation of one sum, so its
contents never become outdated.
"""

from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor

from holdfast.attribution.base import GradientMap
from holdfast.attribution.scores import most_confusing
from holdfast.engine.cpu_kernels import fast_kernels_for
from holdfast.engine.gradients import check_logits
from holdfast.engine.passes import add_passes
from holdfast.models.surrogate import surrogate_or_network
from holdfast.types import MapCache, Model, Pair, Score


class MapPath(Enum):
    """The images at which, or between which, a map is taken."""

    TO_CLEAN = "baseline to x"
    TO_PERTURBED = "baseline to x'"
    BETWEEN = "x to x'"

    @property
    def end(self) -> str:
        """The image at the end of the path: 'clean' or 'perturbed'."""
        return "clean" if self is MapPath.TO_CLEAN else "perturbed"


class Label(Enum):
    """The class that a map explains."""

    TRUE = "y"
    NEGATIVE = "the most confusing class at x'"


@dataclass(frozen=True, kw_only=True)
class MapRequest:
    """A map that a loss needs: `attribution` of `score` for `label` along `path`; with `beta`, on the surrogate."""

    path: MapPath
    attribution: GradientMap
    score: Score
    label: Label = Label.TRUE
    beta: float | None = None

    def shares_passes(self, other: "MapRequest") -> bool:
        """Whether both requests can use the same forward pass."""
        return (self.path, self.attribution, self.beta) == (other.path, other.attribution, other.beta)


def clean_and_perturbed(attribution: GradientMap, score: Score) -> tuple[MapRequest, MapRequest]:
    """The same map at x and at x'."""
    return (
        MapRequest(path=MapPath.TO_CLEAN, attribution=attribution, score=score),
        MapRequest(path=MapPath.TO_PERTURBED, attribution=attribution, score=score),
    )


@dataclass
class LossContext:
    """One evaluation of a loss: the model, the pair, and the values computed so far."""

    model: Model
    pair: Pair
    requests: tuple[MapRequest, ...] = ()
    parts: dict[str, Tensor] = field(default_factory=dict)
    """Named parts of the loss, detached [B], for the log."""
    perturbed_maps: MapCache[Tensor] = field(default_factory=MapCache)
    """Saliency maps [B, H, W] of the perturbed images that a loss has computed, for scoring them later."""
    _maps: dict[MapRequest, Tensor] = field(default_factory=dict)
    _logits: dict[tuple[str, float | None], Tensor] = field(default_factory=dict)

    def log(self, name: str, value: Tensor) -> Tensor:
        """Record a named part for the log and return it."""
        self.parts[name] = value.detach()
        return value

    def map(self, request: MapRequest) -> Tensor:
        """The requested map, shaped like x, computed together with all requests that share its passes."""
        if request not in self._maps:
            together = list(dict.fromkeys([request, *(r for r in self.requests if r.shares_passes(request))]))
            targets = [(r.score, self._labels(r)) for r in together]
            path = {"start": self.pair.x} if request.path is MapPath.BETWEEN else {}
            end = self.pair.x if request.path is MapPath.TO_CLEAN else self.pair.x_adv
            with surrogate_or_network(request.beta):
                found = request.attribution.maps(self.model, end, targets, create_graph=torch.is_grad_enabled(), **path)
            self._maps |= dict(zip(together, found.maps, strict=True))
            if found.logits is not None:
                self._logits.setdefault((request.path.end, request.beta), found.logits)
        return self._maps[request]

    def logits(self, at: str, beta: float | None = None) -> Tensor:
        """Logits [B, K] at the 'clean' or 'perturbed' image, taken from a path that ends there if there is one."""
        if (at, beta) not in self._logits:
            for request in self.requests:
                if request.beta == beta and request.attribution.passes_image and at == request.path.end:
                    self.map(request)
                    break
        if (at, beta) not in self._logits:
            self._logits[at, beta] = self._forward(self.pair.x if at == "clean" else self.pair.x_adv, beta)
        return self._logits[at, beta]

    @property
    def known_logits(self) -> dict[tuple[str, float | None], Tensor]:
        """Logits computed so far, keyed by ('clean' or 'perturbed', sharpness of the surrogate or None)."""
        return self._logits

    def _labels(self, request: MapRequest) -> Tensor:
        if request.label is Label.TRUE:
            return self.pair.y
        with torch.no_grad():  # the choice of a class is not differentiated
            return most_confusing(self._forward(self.pair.x_adv, request.beta), self.pair.y)

    def _forward(self, x: Tensor, beta: float | None) -> Tensor:
        add_passes(x.shape[0], 2 if torch.is_grad_enabled() else 1)
        with surrogate_or_network(beta), fast_kernels_for(self.model, x):
            return check_logits(self.model(x), x)
