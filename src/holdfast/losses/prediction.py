"""Losses of the prediction: cross-entropy, margin, and the KL divergence between two predictions."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.attribution.scores import margin, true_loss
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext
from holdfast.types import Model, Pair


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Loss):
    """-log softmax(f(.))_y at the clean or the perturbed image; with `beta`, on the softplus surrogate.

    >>> from holdfast.types import Pair
    >>> x, x_adv = torch.tensor([[[[0.5, 0.2]]]]), torch.tensor([[[[0.4, 0.3]]]])
    >>> pair = Pair(x, x_adv, torch.tensor([0]))
    >>> [round(CrossEntropy(at=at)(lambda x: x.flatten(1) * 3, pair).item(), 4) for at in ("clean", "perturbed")]
    [0.3412, 0.5544]
    """

    at: Literal["clean", "perturbed"] = "perturbed"
    beta: float | None = None

    def __post_init__(self) -> None:
        if self.at not in ("clean", "perturbed"):
            raise expected("at = 'clean' or 'perturbed'", got=repr(self.at))

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return context.log(f"ce_{self.at}", true_loss(context.logits(self.at, self.beta), context.pair.y))


@dataclass(frozen=True, kw_only=True)
class Margin(Loss):
    """Highest other logit minus the true logit at the perturbed image (Carlini and Wagner 2017).

    It is positive where the prediction is wrong. Unlike the cross-entropy, its gradient does not vanish for confident
    networks, so it avoids this kind of gradient masking.
    """

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        return context.log("margin", margin(context.logits("perturbed"), context.pair.y))


@dataclass(frozen=True, kw_only=True)
class PredictionKL(Loss):
    """KL(softmax f(x) || softmax f(x')), the change of the prediction (TRADES, Zhang et al. 2019)."""

    def prepare(self, model: Model, pair: Pair) -> Clean:
        if torch.is_grad_enabled():  # in training, the context shares the clean logits, and they are differentiated too
            return {}
        return {"log_p": self.context(model, pair).logits("clean").log_softmax(1)}

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        before: Tensor = clean["log_p"] if clean else context.logits("clean").log_softmax(1)
        after = context.logits("perturbed").log_softmax(1)
        return context.log("kl_prediction", (before.exp() * (before - after)).sum(1))
