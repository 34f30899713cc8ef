"""The curvature of the explained score (Dombrowski et al. 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.scores import true_logit
from holdfast.engine.ops import flatten
from holdfast.engine.passes import add_passes
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext
from holdfast.models.surrogate import surrogate_or_network
from holdfast.types import Score

STREAM = 11
"""Stream of the random direction, apart from those of attacks."""


@dataclass(frozen=True, kw_only=True)
class Curvature(Loss):
    """|H v|^2, with H the Hessian of the true logit at the clean image and v a keyed standard normal direction.

    Its mean over v is the squared Frobenius norm of H, the curvature that lets a small perturbation turn the gradient.
    A ReLU network is piecewise linear, and its Hessian is zero: train a softplus network (`model.softplus`), or give
    `beta` to use the Hessian of the softplus surrogate. Without keys in the pair, all examples share one direction.
    """

    score: Score = true_logit
    beta: float | None = None

    @property
    def second_order(self) -> bool:
        return True

    @property
    def points(self) -> int:
        return 2

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        pair, graph = context.pair, torch.is_grad_enabled()
        keys = torch.zeros_like(pair.y) if pair.keys is None else pair.keys
        direction = rng.normal(keys, pair.x, stream=STREAM)
        with torch.enable_grad(), surrogate_or_network(self.beta):
            x = pair.x.detach().requires_grad_()
            gradient = Gradient(score=self.score)(context.model, x, pair.y, create_graph=True)
            along = (gradient * direction).sum()
            (product,) = torch.autograd.grad(along, x, create_graph=graph, allow_unused=True)
        add_passes(len(pair.y), 4 if graph else 2)  # the gradient of forward and backward, and its own derivative
        product = torch.zeros_like(x) if product is None else product  # None: piecewise linear
        return context.log("curvature", flatten(product).square().sum(1))
