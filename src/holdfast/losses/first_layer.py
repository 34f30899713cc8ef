"""Penalties on the first layer, so that it does not respond to pixels below a level.

Where the image is black, an attack can raise a pixel to at most eps. If every filter w with bias b satisfies

    b + level * sum_i max(w_i, 0) <= 0,            level = eps,

then no filter is active on a patch of such pixels. The gradient of the network there is exactly zero before and after
the attack, and so is the attribution. Rank metrics need an exact zero, since most pixels of a clean map are tied.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext
from holdfast.types import Model


@dataclass(frozen=True, kw_only=True)
class DeadZone(Loss):
    """Mean over the filters of the first convolution of max(0, b + level sum_i max(w_i, 0)).

    The value is the same for every example. The network must receive raw pixels in [0, 1], since a normalisation
    before the first layer would shift the level.
    """

    level: float

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        first = first_convolution(context.model)
        assert first.bias is not None
        loudest = first.bias + self.level * first.weight.clamp_min(0).flatten(1).sum(1)
        excess = loudest.clamp_min(0).mean()
        return context.log("dead_zone", excess.expand(context.pair.y.shape[0]))


@dataclass(frozen=True, kw_only=True)
class FilterSpread(Loss):
    """Mean over the filters of the first convolution of sum_i |w_i| - max_i |w_i|.

    It is zero if each filter has at most one non-zero weight. At the edge between strokes and black background, a wide
    filter gives attribution to uninformative pixels.
    """

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        sizes = first_convolution(context.model).weight.flatten(1).abs()
        spread = (sizes.sum(1) - sizes.amax(1)).mean()
        return context.log("filter_spread", spread.expand(context.pair.y.shape[0]))


def first_convolution(model: Model) -> nn.Conv2d:
    """The first convolution of a network; raises unless it has a bias and receives the raw pixels."""
    modules = model.modules() if isinstance(model, nn.Module) else iter(())
    first = next((m for m in modules if isinstance(m, nn.Conv2d)), None)
    if first is None or first.bias is None or getattr(model, "mean", None) is not None:
        got = "a network with a normalisation" if first is not None and first.bias is not None else "none"
        raise expected("a network whose first layer is a convolution with a bias on the raw pixels", got=got)
    return first
