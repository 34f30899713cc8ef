"""The sum of a loss over a batch, computed a few examples at a time.

The graph of a loss that contains integrated gradients keeps every point of every path until the backward pass: 4.9 GB
for one step of ERAR with the paper's settings. Here each slice of the batch is differentiated in the weights as soon
as its loss is computed, so that each thread keeps only one slice in memory. The result is an ordinary tensor whose
`backward` returns the precomputed gradient.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.engine.gradients import images_per_pass
from holdfast.engine.parallel import examples_are_independent, map_chunks, slices
from holdfast.engine.second_order import second_order

Parts = Mapping[str, Tensor]
"""Named parts of the loss for the log, each [B]."""

Evaluate = Callable[[slice | None], tuple[Tensor, Parts]]
"""The loss [B] and its parts for some rows of the batch; None means the whole batch."""


def sum_in_slices(
    evaluate: Evaluate, model: nn.Module, x: Tensor, *, points: int, twice: bool, whole: bool = False
) -> tuple[Tensor, Parts]:
    """The sum of the loss over the examples of x, differentiable once in the weights, and the named parts.

    `points` is the number of images per example in one pass; `twice` tells whether the loss contains a gradient. Slices
    require independent examples. The whole batch is evaluated at once if the network is in training mode and has batch
    normalisation or dropout, if it has unknown layers, or if the caller sets `whole`.
    """
    total, most = x.shape[0], max(1, images_per_pass(x) // points)
    weights = [p for p in model.parameters() if p.requires_grad]
    if whole or not _can_be_sliced(model, x, weights):
        value, parts = evaluate(None)
        return value.sum(), parts

    def of_rows(rows: slice) -> tuple[Tensor, list[Tensor | None], list[Parts]]:
        gradients: list[Tensor | None] = [None] * len(weights)
        value, seen = torch.zeros((), dtype=x.dtype), []
        for part in slices(rows.stop - rows.start, most):
            of_part, parts = evaluate(slice(rows.start + part.start, rows.start + part.stop))
            found = torch.autograd.grad(of_part.sum(), weights, allow_unused=True)
            gradients = [_plus(known, more) for known, more in zip(gradients, found, strict=True)]
            value = value + of_part.detach().sum()
            seen.append(parts)
        return value, gradients, seen

    with second_order(twice):  # once for all threads: the setting is process-wide
        found = map_chunks(model, x, total, total, of_rows, points=points)
    values, gradients, seen = zip(*found, strict=True)
    every = [parts for some in seen for parts in some]
    known = [reduce(_plus, of_weight) for of_weight in zip(*gradients, strict=True)]
    result: Tensor = _WithGradient.apply(torch.stack(values).sum(), known, *weights)  # type: ignore[no-untyped-call]
    shared = [name for name in every[0] if all(name in parts for parts in every)]
    return result, {name: torch.cat([parts[name] for parts in every]) for name in shared}


def _can_be_sliced(model: nn.Module, x: Tensor, weights: Sequence[nn.Parameter]) -> bool:
    """Whether slices give the same result: independent examples, and no gradient hooks on the weights.

    Hooks are private to PyTorch; where they cannot be seen, the answer is no.
    """
    return (
        torch.is_grad_enabled()
        and x.shape[0] > 0
        and len(weights) > 0
        and examples_are_independent(model, x)
        and not x.requires_grad
        and not any(getattr(weight, "_backward_hooks", True) for weight in weights)
    )


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


class _WithGradient(torch.autograd.Function):
    """A scalar whose gradient in the weights is already computed."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor | None], *weights: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(None if gradient is None else factor * gradient for gradient in ctx.gradients)
