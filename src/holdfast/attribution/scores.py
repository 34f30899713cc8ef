"""Scores: the scalar that a map explains, as a function of logits and label, and their registry.

Each score takes `(logits [B, K], y [B])` and returns `[B]`. To add one that configs and commands can name, add it to
`SCORES`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import expected
from holdfast.types import Score


def true_logit(logits: Tensor, y: Tensor) -> Tensor:
    """z_y, the pre-softmax output of class y; IFIA and its metrics explain this score."""
    return logits.gather(1, y[:, None])[:, 0]


def centred_logit(logits: Tensor, y: Tensor) -> Tensor:
    """z_y - mean_c z_c, the true logit minus the mean logit.

    A term common to all logits moves the map of the true logit and no prediction; it cancels here.

    >>> centred_logit(torch.tensor([[3.0, 0.0, 0.0]]) + 100, torch.tensor([0]))
    tensor([2.])
    """
    return true_logit(logits, y) - logits.mean(1)


def true_probability(logits: Tensor, y: Tensor) -> Tensor:
    """softmax(z)_y, the f_TCI of the paper."""
    return true_logit(logits.softmax(1), y)


def true_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy -log softmax(z)_y, the L_TCI of the paper."""
    return F.cross_entropy(logits, y, reduction="none")


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """Highest other logit minus the true logit; positive where the prediction is wrong."""
    return true_logit(logits, most_confusing(logits, y)) - true_logit(logits, y)


def most_confusing(logits: Tensor, y: Tensor) -> Tensor:
    """The class other than y with the highest logit (the NCI of the paper), int64 [B]."""
    return logits.detach().scatter(1, y[:, None], -torch.inf).argmax(1)


@dataclass(frozen=True)
class ClassLogit:
    """z_c of a fixed class c; the label is ignored."""

    index: int

    def __call__(self, logits: Tensor, y: Tensor) -> Tensor:
        return logits[:, self.index]


@dataclass(frozen=True)
class ClassProbability:
    """softmax(z)_c of a fixed class c; the label is ignored."""

    index: int

    def __call__(self, logits: Tensor, y: Tensor) -> Tensor:
        return logits.softmax(1)[:, self.index]


SCORES: dict[str, Score] = {
    "true-logit": true_logit,
    "centred-logit": centred_logit,
    "true-probability": true_probability,
    "true-loss": true_loss,
    "margin": margin,
}
"""Name -> score, for configs and commands."""


def score_of(score: str | Score) -> Score:
    """The score called `score`; a function is returned as it is.

    >>> score_of("centred-logit") is centred_logit
    True
    """
    if callable(score):
        return score
    if not isinstance(score, str) or score not in SCORES:
        raise expected(f"score to be one of {', '.join(SCORES)}", got=repr(score))
    return SCORES[score]
