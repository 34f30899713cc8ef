"""The alignment loss of ART (Singh et al. 2019).

The gradient of the true logit should resemble the image; the gradient of the strongest other logit should not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attribution.gradient import Gradient
from holdfast.attribution.scores import margin, true_logit
from holdfast.engine.ops import flatten
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext
from holdfast.metrics.top_k import top_k_mask
from holdfast.models.surrogate import softplus_surrogate
from holdfast.types import Model, Pair


def other_logit(logits: Tensor, y: Tensor) -> Tensor:
    """The highest logit of a class other than y."""
    return margin(logits, y) + true_logit(logits, y)


def absolute_mean(x: Tensor) -> Tensor:
    """Mean of the absolute values over channels: [B, C, H, W] -> [B, H W] (the authors' CUB variant)."""
    return flatten(x.abs().mean(1))


CHANNELS: Mapping[str, Callable[[Tensor], Tensor]] = {"signed": flatten, "absolute-mean": absolute_mean}


@dataclass(frozen=True, kw_only=True)
class AlignmentTriplet(Loss):
    """log(1 + exp(-(d_neg - d_pos))), d = 1 - cos(image, gradient), on the softplus surrogate with sharpness `beta`.

    d_pos is the larger distance of x and x' to their gradients of the true logit. d_neg is the smaller distance to
    their gradients of the strongest other logit (hard mining within the pair). `k` restricts image and gradient to the
    k entries with the largest |gradient| at the start of the search, as in the training attack; None uses all entries.
    `mean` and `std` are the normalisation of the network; `image` is the normalised image.
    """

    beta: float = 50.0
    k: int | None = None
    channels: str = "signed"
    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        if self.channels not in CHANNELS:
            raise expected(f"channels to be one of {', '.join(CHANNELS)}", got=repr(self.channels))

    @property
    def second_order(self) -> bool:
        return True

    @property
    def points(self) -> int:
        return 4

    def prepare(self, model: Model, pair: Pair) -> Clean:
        if self.k is None:
            return {}
        gradient = CHANNELS[self.channels](Gradient()(model, pair.x_adv, pair.y)).abs()
        return {"entries": top_k_mask(gradient, self.k)}

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        pair = context.pair
        near = [self._distance(context, x, true_logit, clean) for x in (pair.x, pair.x_adv)]
        far = [self._distance(context, x, other_logit, clean) for x in (pair.x, pair.x_adv)]
        positive = context.log("align_true", torch.maximum(*near))
        negative = context.log("align_other", torch.minimum(*far))
        return F.softplus(positive - negative)

    def _distance(self, context: LossContext, x: Tensor, score: Callable[..., Tensor], clean: Clean) -> Tensor:
        with softplus_surrogate(self.beta):
            gradient = Gradient(score=score)(context.model, x, context.pair.y, create_graph=torch.is_grad_enabled())
        anchor, gradient = (CHANNELS[self.channels](v) for v in ((x - self.mean) / self.std, gradient))
        if "entries" in clean:
            anchor, gradient = anchor * clean["entries"], gradient * clean["entries"]
        return 1 - torch.cosine_similarity(anchor, gradient, dim=1, eps=1e-12)
