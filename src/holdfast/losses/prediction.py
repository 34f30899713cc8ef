"""Losses of the prediction: cross-entropy and margin."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from holdfast.attribution.engine import check_logits
from holdfast.attribution.scores import margin, true_loss
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.types import Model, Pair


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Loss):
    """-log softmax(f(.))_y at the clean or at the perturbed image."""

    at: Literal["clean", "perturbed"] = "perturbed"

    def __post_init__(self) -> None:
        if self.at not in ("clean", "perturbed"):
            raise expected("at = 'clean' or 'perturbed'", got=repr(self.at))

    def value(self, model: Model, pair: Pair, clean: Clean) -> Tensor:
        x = pair.x if self.at == "clean" else pair.x_adv
        return true_loss(check_logits(model(x), x), pair.y)


@dataclass(frozen=True, kw_only=True)
class Margin(Loss):
    """Highest other logit minus the true one at the perturbed image (Carlini and Wagner 2017); > 0 is an error.

    Unlike the cross-entropy it does not vanish for confident networks, so it sees through one kind of masking.
    """

    def value(self, model: Model, pair: Pair, clean: Clean) -> Tensor:
        return margin(check_logits(model(pair.x_adv), pair.x_adv), pair.y)
