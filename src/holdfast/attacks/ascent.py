"""One evaluation of a loss in a search: its value, its gradient in the image, and the predicted labels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.active import ActiveExamples
from holdfast.engine.parallel import map_chunks
from holdfast.errors import expected
from holdfast.losses.base import Loss, select
from holdfast.types import Model, Pair


@dataclass(frozen=True)
class Seen:
    """The loss [B], its gradient, and the predicted labels if the loss computed the network's own logits."""

    value: Tensor
    gradient: Tensor | None
    labels: Tensor | None


def look(
    loss: Loss, model: Model, batch: ActiveExamples, x_adv: Tensor, *, images_per_pass: int, gradient: bool
) -> Seen:
    """Evaluate `loss` at x_adv, and its gradient in x_adv if asked for, in chunks that fit into memory."""

    def of_rows(part: slice) -> Seen:
        with torch.set_grad_enabled(gradient):
            there = x_adv[part].detach().requires_grad_(gradient)
            context = loss.context(model, Pair(batch.x[part], there, batch.y[part], keys=batch.keys[part]))
            value = loss.value(context, select(batch.clean, part))
            ascent = _gradient(loss, value, there) if gradient else None
        logits = context.known_logits.get(("perturbed", None))
        return Seen(value.detach(), ascent, None if logits is None else logits.detach().argmax(1))

    most = max(1, images_per_pass // loss.points)
    found = map_chunks(model, x_adv, x_adv.shape[0], most, of_rows, points=loss.points)
    gradients = [seen.gradient for seen in found if seen.gradient is not None]
    labels = [seen.labels for seen in found if seen.labels is not None]
    return Seen(
        value=torch.cat([seen.value for seen in found]),
        gradient=torch.cat(gradients) if gradients else None,
        labels=torch.cat(labels) if len(labels) == len(found) else None,
    )


def _gradient(loss: Loss, value: Tensor, x_adv: Tensor) -> Tensor:
    found = None
    if value.requires_grad:
        (found,) = torch.autograd.grad(value.sum(), x_adv, allow_unused=True)
    if found is None:
        raise expected(
            "a loss that depends differentiably on the image",
            got=f"{type(loss).__name__} without a gradient",
            fix="the model or the loss detaches its input",
        )
    return found
