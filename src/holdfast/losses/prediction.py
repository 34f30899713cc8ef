"""Losses of the prediction: cross-entropy, margin, difference of logits ratio, and the KL divergence of predictions."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.attribution.scores import margin, true_logit, true_loss
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
class DLR(Loss):
    """Difference of logits ratio at the perturbed image (Croce and Hein 2020).

        (max_{c != y} z_c - z_y) / (z_(1) - z_(3)),      z_(1) >= z_(2) >= z_(3) the largest logits

    It is the margin, divided so that neither the scale of the logits nor a shift changes it. With `target_rank` = r it
    aims at t, the class with the r-th largest logit among the others at the clean image:

        (z_t - z_y) / (z_(1) - (z_(3) + z_(4)) / 2).

    With three classes z_(3) takes the place of z_(4). With two there is no third logit, and the value is the margin.

    >>> x = torch.tensor([[[[1.0, 0.8, 0.2, 0.0]]]])
    >>> pair = Pair(x, x, torch.tensor([0]))
    >>> [round(loss(lambda x: x.flatten(1), pair).item(), 4) for loss in (DLR(), DLR(target_rank=2))]
    [-0.25, -0.8889]
    """

    target_rank: int | None = None

    def __post_init__(self) -> None:
        if self.target_rank is not None and self.target_rank < 1:
            raise expected("target_rank >= 1, a rank among the other classes, or None", got=self.target_rank)

    def prepare(self, model: Model, pair: Pair) -> Clean:
        if self.target_rank is None:
            return {}
        logits = self.context(model, pair).logits("clean").detach()
        if self.target_rank >= logits.shape[1]:
            raise expected(f"target_rank <= {logits.shape[1] - 1}, the number of other classes", got=self.target_rank)
        others = logits.scatter(1, pair.y[:, None], -torch.inf)
        return {"target": others.argsort(1, descending=True)[:, self.target_rank - 1]}

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        logits, y = context.logits("perturbed"), context.pair.y
        ahead = margin(logits, y)
        if self.target_rank is not None:
            ahead = true_logit(logits, clean["target"]) - true_logit(logits, y)
        if logits.shape[1] == 2:
            return context.log("dlr", ahead)
        top = logits.topk(min(4, logits.shape[1])).values
        third = top[:, 2] if self.target_rank is None else top[:, 2:].mean(1)
        return context.log("dlr", ahead / (top[:, 0] - third + 1e-12))


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
