"""The examples an attack still works on, and predictions in pieces that fit into memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.engine import check_logits
from holdfast.checks import check_outputs
from holdfast.losses.base import Clean, select
from holdfast.meter import spend
from holdfast.models.lean import lean_on
from holdfast.side_by_side import map_chunks
from holdfast.types import Known, Model


@dataclass(frozen=True)
class Batch:
    """Examples still under attack: their rows in the caller's batch and everything known of their clean side."""

    rows: Tensor
    x: Tensor
    y: Tensor
    keys: Tensor
    label: Tensor | None
    """The prediction for the clean image, when the attack needs to know it."""
    clean: Clean
    judge_clean: Clean | None
    maps: Known[Tensor]
    """Clean maps that the caller knew already."""

    def keep(self, alive: Tensor) -> "Batch":
        """Only the examples for which `alive` [B] is true."""
        if bool(alive.all()):
            return self
        return Batch(
            rows=self.rows[alive],
            x=self.x[alive],
            y=self.y[alive],
            keys=self.keys[alive],
            label=None if self.label is None else self.label[alive],
            clean=select(self.clean, alive),
            judge_clean=None if self.judge_clean is None else select(self.judge_clean, alive),
            maps=self.maps.at(alive),
        )


@dataclass(frozen=True)
class Predictions:
    """Predicted labels [B] and the number of classes."""

    labels: Tensor
    classes: int


@torch.no_grad()
def predictions(model: Model, x: Tensor, images_per_pass: int, *, check: bool = False) -> Predictions:
    """argmax of the logits of x, in pieces; with `check`, logits that predict nothing are refused."""
    spend(x.shape[0], 1)

    def of_rows(part: slice) -> Tensor:
        with lean_on(x):
            return check_logits(model(x[part]), x[part])

    logits = torch.cat(map_chunks(model, x, x.shape[0], images_per_pass, of_rows))
    if check:
        check_outputs(logits)
    return Predictions(labels=logits.argmax(1), classes=logits.shape[1])
