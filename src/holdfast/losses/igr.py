"""The cosine between the attributions of x and x' in IGR (Wang and Kong 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.scores import true_probability
from holdfast.engine.ops import flatten
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapRequest, clean_and_perturbed
from holdfast.losses.pixels import path_ig
from holdfast.types import Score


@dataclass(frozen=True, kw_only=True)
class AttributionCosine(Loss):
    """1 - cos(IG(x0, x), IG(x0, x')) of the signed attributions (IGR, Wang and Kong 2022)."""

    steps: int = 50
    score: Score = true_probability

    @property
    def requests(self) -> tuple[MapRequest, MapRequest]:
        return clean_and_perturbed(path_ig(self.steps), self.score)

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        before, after = (flatten(context.map(request)) for request in self.requests)
        return context.log("ig_cosine", 1 - torch.cosine_similarity(before, after, dim=1, eps=1e-12))
