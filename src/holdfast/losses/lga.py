"""Local gradient alignment, the loss of LGA (Joo et al. 2023)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.gradient import Gradient
from holdfast.attribution.scores import true_logit
from holdfast.engine.ops import flatten
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapRequest, clean_and_perturbed
from holdfast.types import Score


@dataclass(frozen=True, kw_only=True)
class GradientAlignment(Loss):
    """l2_weight |g(x) - g(x')|^2 + cosine_weight (1 - cos(g(x), g(x'))) / 2, with g the gradient of the true logit.

    g(x) is a constant: only g(x') is trained to agree with it. The squared norm alone would also be lowered by smaller
    weights, which leave normalised maps as they are; the cosine is not.
    """

    l2_weight: float = 0.01
    cosine_weight: float = 1.0
    score: Score = true_logit

    @property
    def requests(self) -> tuple[MapRequest, MapRequest]:
        return clean_and_perturbed(Gradient(), self.score)

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        before, after = (flatten(context.map(request)) for request in self.requests)
        before = before.detach()
        distance = context.log("gradient_l2", (before - after).square().sum(1))
        angle = context.log("gradient_cosine", (1 - torch.cosine_similarity(before, after, dim=1, eps=1e-12)) / 2)
        return self.l2_weight * distance + self.cosine_weight * angle
