"""CACR, the class attribution-based contrastive regularizer of the paper (Eqs. 4 to 6 and 11)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.scores import most_confusing, true_probability
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import Label, LossContext, MapPath, MapRequest
from holdfast.losses.pixels import GRANULARITIES, path_ig, pick


def negative_probability(logits: Tensor, y: Tensor) -> Tensor:
    """Probability of the most confusing class, chosen separately at each point of the path (released code)."""
    return true_probability(logits, most_confusing(logits, y))


def kl_uniform(u: Tensor) -> Tensor:
    """KL(uniform || softmax(u)) = logsumexp(u) - mean(u) - log P per example, [B, P] -> [B].

    With v = u - mean(u) this is log mean exp(v). At the paper's scale v is about 1e-3 and the result about 1e-6, far
    below the rounding error of log P. For small v it is therefore computed as log1p(mean(expm1(v))), which keeps full
    precision.
    """
    v = u - u.mean(1, keepdim=True)
    small = v.detach().abs().amax(1) < 1
    near = torch.log1p(torch.expm1(v.clamp(-1, 1)).mean(1))
    far = torch.logsumexp(v, 1) - math.log(v.shape[1])
    return torch.where(small, near, far)


@dataclass(frozen=True, kw_only=True)
class CACR(Loss):
    """KL(P_ME || P_NCA) - KL(P_ME || P_TCA) (Eq. 6), where P_NCA and P_TCA are softmaxes over the pixels of IG(x0, x').

    P_ME is uniform. P_TCA explains the probability of the true class, P_NCA that of the most confusing class. The most
    confusing class has the highest other logit at x' (`negative="endpoint"`, the paper) or at each point of the path
    (`negative="per-point"`, released code). `scale` multiplies the attributions before the softmax; at the paper's
    scale of 1 both terms are tiny. `nca=False` drops the first term (an ablation of the paper). `steps` is the number
    of points of integrated gradients.

    >>> import torch
    >>> from holdfast.types import Pair
    >>> x, x_adv = torch.tensor([[[[0.5, 0.2, 0.1]]]]), torch.tensor([[[[0.4, 0.3, 0.2]]]])
    >>> loss = CACR(steps=10)(lambda x: x.flatten(1) * 3, Pair(x, x_adv, torch.tensor([0])))
    >>> loss.shape, round(loss.item(), 4)
    (torch.Size([1]), -0.0051)
    """

    steps: int = 50
    scale: float = 1.0
    negative: str = "endpoint"
    granularity: str = "pixel"
    nca: bool = True

    def __post_init__(self) -> None:
        pick(GRANULARITIES, self.granularity, "granularity")
        if self.negative not in ("endpoint", "per-point"):
            raise expected("negative = 'endpoint' or 'per-point'", got=repr(self.negative))

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (self._true, self._negative) if self.nca else (self._true,)

    @property
    def _true(self) -> MapRequest:
        return MapRequest(path=MapPath.TO_PERTURBED, attribution=path_ig(self.steps), score=true_probability)

    @property
    def _negative(self) -> MapRequest:
        at_end = self.negative == "endpoint"
        return MapRequest(
            path=MapPath.TO_PERTURBED,
            attribution=path_ig(self.steps),
            score=true_probability if at_end else negative_probability,
            label=Label.NEGATIVE if at_end else Label.TRUE,
        )

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        true = context.log("kl_tca", self._kl(context, self._true))
        if not self.nca:
            return -true
        return context.log("kl_nca", self._kl(context, self._negative)) - true

    def _kl(self, context: LossContext, request: MapRequest) -> Tensor:
        return kl_uniform(self.scale * GRANULARITIES[self.granularity](context.map(request)))
