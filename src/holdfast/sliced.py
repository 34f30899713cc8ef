"""The sum of a loss over a batch, a few examples at a time.

The graph of a loss that contains integrated gradients holds every point of every path until the backward pass: 4.9 GB
for one step of ERAR with the paper's settings. Here each slice of the batch is differentiated in the weights as soon
as it is computed, so that only one slice is held, and slices run side by side. The result is an ordinary tensor whose
`backward` hands out the gradient that is known already.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attribution.engine import images_per_pass
from holdfast.errors import expected
from holdfast.losses.base import Loss
from holdfast.losses.scene import Scene
from holdfast.models.double_backward import second_order
from holdfast.side_by_side import map_chunks, may_share, slices
from holdfast.types import Pair

Parts = Mapping[str, Tensor]
"""What the log is told about each example, by name; [B]."""


def summed(loss: Loss, model: nn.Module, pair: Pair) -> tuple[Tensor, Parts]:
    """The sum of the loss over the pair's examples, differentiable once in the weights, and the named parts.

    The examples must not see each other, so a network in training mode with batch normalisation or dropout, and a
    network of unknown layers, take the batch as a whole.
    """
    total = len(pair.y)
    most = max(1, images_per_pass(pair.x) // loss.points)
    weights = [p for p in model.parameters() if p.requires_grad]
    if not _can_be_cut(model, pair, weights):
        value, parts = _evaluate(loss, model, pair)
        return value.sum(), parts

    def of_rows(rows: slice) -> tuple[Tensor, list[Tensor | None], list[Parts]]:
        gradients: list[Tensor | None] = [None] * len(weights)
        value, seen = torch.zeros((), dtype=pair.x.dtype), []
        for part in slices(rows.stop - rows.start, most):
            some = slice(rows.start + part.start, rows.start + part.stop)
            here = loss.for_rows(torch.arange(some.start, some.stop))
            of_part, parts = _evaluate(here, model, Pair(pair.x[some], pair.x_adv[some], pair.y[some]))
            found = torch.autograd.grad(of_part.sum(), weights, allow_unused=True)
            gradients = [_plus(known, more) for known, more in zip(gradients, found, strict=True)]
            value = value + of_part.detach().sum()
            seen.append(parts)
        return value, gradients, seen

    with second_order(loss.second_order):  # once for all threads: it is a setting of the process
        found = map_chunks(model, pair.x, total, total, of_rows, points=loss.points)
    values, gradients, seen = zip(*found, strict=True)
    every = [parts for some in seen for parts in some]
    known = [reduce(_plus, of_weight) for of_weight in zip(*gradients, strict=True)]
    result: Tensor = _Known.apply(torch.stack(values).sum(), known, *weights)  # type: ignore[no-untyped-call]
    return result, {
        name: torch.cat([parts[name] for parts in every]) for name in every[0] if all(name in p for p in every)
    }


def _can_be_cut(model: nn.Module, pair: Pair, weights: Sequence[nn.Parameter]) -> bool:
    """Whether slices give the same: independent examples, and nobody else who waits for a gradient or listens to it."""
    return (
        torch.is_grad_enabled()
        and len(pair.y) > 0
        and len(weights) > 0
        and may_share(model, pair.x)
        and not (pair.x.requires_grad or pair.x_adv.requires_grad)
        and not any(weight._backward_hooks for weight in weights)
    )


def _evaluate(loss: Loss, model: nn.Module, pair: Pair) -> tuple[Tensor, Parts]:
    scene = loss.scene(model, pair)
    value = loss.value(scene, loss.prepare(model, pair))
    return value, scene.parts | _accuracies(scene)


def _accuracies(scene: Scene) -> dict[str, Tensor]:
    """Accuracy at whichever images the losses looked at anyway; no pass is made for it."""
    if any(logits.shape[1] < 2 for logits in scene.seen_logits.values()):
        raise expected("a network with at least two logits to train", got="one", fix="one logit has nothing to learn")
    return {
        f"accuracy_{at}": (logits.detach().argmax(1) == scene.pair.y).to(logits.dtype)
        for (at, beta), logits in scene.seen_logits.items()
        if beta is None
    }


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


class _Known(torch.autograd.Function):
    """A number whose gradient in the weights has been computed beforehand."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor | None], *weights: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(None if gradient is None else factor * gradient for gradient in ctx.gradients)
