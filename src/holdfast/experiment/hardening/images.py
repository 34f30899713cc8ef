"""The images of a hardening: for training, for watching the accuracy, and for the audits."""

from dataclasses import dataclass
from typing import Any

import torch

from holdfast.data import Dataset
from holdfast.data.subsets import hold_out
from holdfast.errors import expected
from holdfast.evaluation.accuracy import Accuracy, measure_accuracy
from holdfast.types import Model

WATCHED = 2000
"""Most held-out images on which the accuracy is watched during training."""


@dataclass(frozen=True, kw_only=True)
class Images:
    """Images for training, and held-out images in two parts: the accuracy is watched on one, the audits use the other.

    So the audited images influence neither the weights nor the choice among them.
    """

    train: Dataset
    watched: Dataset
    audited: Dataset

    def described(self) -> dict[str, Any]:
        """What identifies the images, for the plan."""
        parts = {"train": self.train, "watched": self.watched, "audited": self.audited}
        return {
            name: {"n": len(part), "checksum": part.checksum, "source": part.source} for name, part in parts.items()
        }


def divide(data: Dataset, held_out: Dataset | None, *, share: int | float, seed: int) -> Images:
    """Training, watched and audited images; without held-out images, a share of the data is held out."""
    if held_out is None:
        parts = hold_out(data.y.numpy(), share, seed)
        data, held_out = (data.subset(torch.from_numpy(parts[name])) for name in ("train", "test"))
    if len(held_out) < 2:
        raise expected("at least two held-out images", got=len(held_out), fix="pass more images")
    halves = hold_out(held_out.y.numpy(), len(held_out) // 2, seed)
    audited, watched = (held_out.subset(torch.from_numpy(halves[name])) for name in ("test", "train"))
    return Images(train=data, watched=watched.stratified(min(WATCHED, len(watched)), seed), audited=audited)


def accuracy_on(model: Model, data: Dataset, device: torch.device) -> float:
    """The share of the images that the network, in evaluation mode, classifies as labelled."""
    found = Accuracy()
    for _ in measure_accuracy(found, model, data, data, None, seed=0, batch_size=256, device=device, path=None):
        pass
    return found.natural or 0.0
