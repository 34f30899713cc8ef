"""The two regularizers of R2ET (Chen et al. 2024): the gap behind the top k, and the curvature of the loss.

Both use g(x), the gradient of the cross-entropy at the clean image, and share its passes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.gradient import Gradient
from holdfast.attribution.scores import true_loss
from holdfast.engine.ops import flatten
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapPath, MapRequest
from holdfast.losses.pixels import l2

_AT_X = MapRequest(path=MapPath.TO_CLEAN, attribution=Gradient(), score=true_loss)


@dataclass(frozen=True, kw_only=True)
class TopKGap(Loss):
    """sum_{i=k+1}^{2k} h_(i) - sum_{i=1}^{k} h_(i), with h_(1) >= h_(2) >= ... the sorted |g(x)|, summed over channels.

    It is the sum of h_low - h_high over the pairs of ranks (i, k) with i < k and (k, k + i) with i <= k, in which h_(k)
    cancels. A wide gap leaves room for a perturbation that does not change which pixels are the top k.
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise expected("k >= 1", got=self.k)

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (_AT_X,)

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        size = flatten(context.map(_AT_X).abs().sum(1))
        if self.k >= size.shape[1]:
            raise expected(f"k < {size.shape[1]}, the number of pixels", got=self.k)
        top = size.topk(min(2 * self.k, size.shape[1])).values
        return context.log("top_k_gap", top[:, self.k :].sum(1) - top[:, : self.k].sum(1))


@dataclass(frozen=True, kw_only=True)
class FiniteCurvature(Loss):
    """|g(x + eta s) - g(x)|_2 / (eta d), with s = sign g(x) a constant and d the number of entries of x.

    For small eta this is |H s|_2 / d, with H the Hessian of the cross-entropy. The authors' code has the same limit; it
    takes a step of eta / d, which single precision cannot resolve on large images.
    """

    eta: float = 1e-3

    def __post_init__(self) -> None:
        if not self.eta > 0:
            raise expected("eta > 0", got=self.eta)

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (_AT_X,)

    @property
    def points(self) -> int:
        return 2

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        here, pair = context.map(_AT_X), context.pair
        point = pair.x + self.eta * here.detach().sign()
        there = Gradient(score=true_loss)(context.model, point, pair.y, create_graph=torch.is_grad_enabled())
        difference = flatten(there - here)
        return context.log("finite_curvature", l2(difference) / (self.eta * difference.shape[1]))
