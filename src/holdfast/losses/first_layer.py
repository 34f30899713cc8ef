"""A first layer that does not hear the noise: no filter fires where every pixel stays below a level.

Where the image is black, an attack can raise a pixel to at most eps. If every filter w with bias b satisfies

    b + level * sum_i max(w_i, 0) <= 0,            level = eps,

then a patch of such pixels gives exactly nothing: the network's gradient there is exactly zero, before and after the
attack, and so is the attribution. Rank metrics need that zero to be exact, since most pixels of a clean map are tied.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext
from holdfast.types import Model


@dataclass(frozen=True, kw_only=True)
class DeadZone(Loss):
    """mean over filters of max(0, b + level sum_i max(w_i, 0)) of the first convolution; the same for every example.

    For networks that see the pixels as they are, in [0, 1]: a normalisation before the first layer moves the level.
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
    """mean over filters of sum_i |w_i| - max_i |w_i| of the first convolution: zero when each looks at one pixel.

    Between the strokes and the black, a wide filter lends attribution to pixels that have nothing to say.
    """

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        sizes = first_convolution(context.model).weight.flatten(1).abs()
        spread = (sizes.sum(1) - sizes.amax(1)).mean()
        return context.log("filter_spread", spread.expand(context.pair.y.shape[0]))


def first_convolution(model: Model) -> nn.Conv2d:
    """The first convolution of a network, with a bias, that is given the pixels themselves."""
    modules = model.modules() if isinstance(model, nn.Module) else iter(())
    first = next((m for m in modules if isinstance(m, nn.Conv2d)), None)
    if first is None or first.bias is None or getattr(model, "mean", None) is not None:
        got = "a network with a normalisation" if first is not None and first.bias is not None else "none"
        raise expected("a network whose first layer is a convolution of the pixels with a bias", got=got)
    return first
