"""RAR's norm of the change of attribution, IG-NORM (Chen et al. 2019; the second term of Eq. 12)."""

from dataclasses import dataclass

from torch import Tensor

from holdfast.attribution.scores import true_loss
from holdfast.engine.ops import flatten
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapPath, MapRequest
from holdfast.losses.pixels import SIZES, path_ig, pick


@dataclass(frozen=True, kw_only=True)
class IGNorm(Loss):
    """S(IG(x, x')) of the loss (RAR, Chen et al. 2019; the second term of Eq. 12), `steps` points from x to x'."""

    steps: int = 50
    size: str = "l1"

    def __post_init__(self) -> None:
        pick(SIZES, self.size, "a size")

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (MapRequest(path=MapPath.BETWEEN, attribution=path_ig(self.steps), score=true_loss),)

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return context.log("ig_norm", SIZES[self.size](flatten(context.map(self.requests[0]))))
