"""Predicted labels, computed in chunks that fit into memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.engine.checks import check_outputs
from holdfast.engine.cpu_kernels import fast_kernels_for
from holdfast.engine.gradients import check_logits
from holdfast.engine.parallel import map_chunks
from holdfast.engine.passes import add_passes
from holdfast.types import Model


@dataclass(frozen=True)
class Predictions:
    """Predicted labels [B] and the number of classes."""

    labels: Tensor
    classes: int


@torch.no_grad()
def predictions(model: Model, x: Tensor, images_per_pass: int, *, check: bool = False) -> Predictions:
    """argmax of the logits of x, computed in chunks; `check` verifies the logits with `check_outputs`."""
    add_passes(x.shape[0], 1)

    def of_rows(part: slice) -> Tensor:
        with fast_kernels_for(model, x):
            return check_logits(model(x[part]), x[part])

    logits = torch.cat(map_chunks(model, x, x.shape[0], images_per_pass, of_rows))
    if check:
        check_outputs(logits)
    return Predictions(labels=logits.argmax(1), classes=logits.shape[1])
