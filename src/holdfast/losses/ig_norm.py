"""IG-NORM, the norm of the change of attribution in RAR (Chen et al. 2019; the second term of Eq. 12)."""

from dataclasses import dataclass

from torch import Tensor

from holdfast.attribution.scores import true_loss
from holdfast.engine.ops import flatten
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapPath, MapRequest
from holdfast.losses.pixels import SIZES, path_ig, pick


@dataclass(frozen=True, kw_only=True)
class IGNorm(Loss):
    """S(IG(x, x')), the size of the integrated gradients of the cross-entropy from x to x' (Chen et al. 2019; Eq. 12).

    `steps` is the number of points on the path; `size` selects S, "l1" or "l2".

    >>> import torch
    >>> from holdfast.types import Pair
    >>> x, x_adv = torch.tensor([[[[0.5, 0.2]]]]), torch.tensor([[[[0.4, 0.3]]]])
    >>> loss = IGNorm(steps=10)(lambda x: x.flatten(1) * 3, Pair(x, x_adv, torch.tensor([0])))
    >>> loss.shape, round(loss.item(), 4)
    (torch.Size([1]), 0.2173)
    """

    steps: int = 50
    size: str = "l1"

    def __post_init__(self) -> None:
        pick(SIZES, self.size, "size")

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (MapRequest(path=MapPath.BETWEEN, attribution=path_ig(self.steps), score=true_loss),)

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return context.log("ig_norm", SIZES[self.size](flatten(context.map(self.requests[0]))))
