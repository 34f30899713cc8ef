"""The correlation between the attributions of x and x' in AAT and AdvAAT (Ivankay et al. 2020)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.scores import true_probability
from holdfast.engine.ops import flatten
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapRequest, clean_and_perturbed
from holdfast.losses.pixels import path_ig
from holdfast.types import Model, Pair, Score


@dataclass(frozen=True, kw_only=True)
class AttributionPearson(Loss):
    """1 - Pearson correlation of IG(x0, x) and IG(x0, x') over all entries (FAR, Ivankay et al. 2020).

    In a search IG(x0, x) is computed once; in training it is differentiated, too.
    """

    steps: int = 50
    score: Score = true_probability

    @property
    def requests(self) -> tuple[MapRequest, MapRequest]:
        return clean_and_perturbed(path_ig(self.steps), self.score)

    def prepare(self, model: Model, pair: Pair) -> Clean:
        if torch.is_grad_enabled():
            return {}
        return {"map": self.context(model, pair).map(self.requests[0])}

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        to_clean, to_perturbed = self.requests
        before = clean["map"] if clean else context.map(to_clean)
        one, other = (_centred(flatten(found)) for found in (before, context.map(to_perturbed)))
        return context.log("ig_pearson", 1 - torch.cosine_similarity(one, other, dim=1, eps=1e-12))


def _centred(values: Tensor) -> Tensor:
    return values - values.mean(1, keepdim=True)
