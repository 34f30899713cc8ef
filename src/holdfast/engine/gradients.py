"""Gradients of scores: all are computed here, batched over examples and points, in chunks.

Every gradient map is a weighted sum of gradients at points around x or on a path to x,

    G(x) = sum_j w_j grad s(f(p_j(x))),

so one function computes them all: the gradient (one point), SmoothGrad (noisy points), integrated gradients (a path).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.engine.cpu_kernels import fast_kernels_for
from holdfast.engine.parallel import map_chunks, slices
from holdfast.engine.passes import add_passes
from holdfast.engine.second_order import second_order
from holdfast.engine.straight_path import StraightPath
from holdfast.errors import expected
from holdfast.types import Model, Target

Place = Callable[[slice, slice], Tensor | StraightPath]
"""`(examples, points) -> [points, examples, C, H, W]`: the points at which the gradients are computed."""

PIXELS_PER_PASS = 2**18
"""Input entries per forward pass if no `chunk` is given: fits the caches and the memory of a laptop."""

FEWEST, MOST_PIXELS = 8, 2**20
"""Passes of fewer images than `FEWEST` lose time to the start of every operation: 7 % at 128 x 128 with five images. So
many pass at once, even if they are large, unless they have more entries together than `MOST_PIXELS`."""


@dataclass(frozen=True)
class GradientSums:
    """The weighted sum of gradients for each target, and the logits at the last point."""

    gradients: list[Tensor]
    last_logits: Tensor | None


def weighted_gradients(
    model: Model,
    x: Tensor,
    targets: Sequence[Target],
    place: Place,
    weights: Tensor,
    *,
    create_graph: bool,
    chunk: int | None = None,
) -> GradientSums:
    """sum_j w_j grad s(f(p_j)) for each target, with the shape of x; `chunk` bounds the images per forward pass.

    The gradient is taken with respect to the point itself. With `create_graph` the result is differentiable with
    respect to the tensors from which the points were computed.
    """
    limit = chunk or images_per_pass(x)
    if x.shape[0] == 0:
        return GradientSums([torch.zeros_like(x) for _ in targets], None)

    def of_rows(rows: slice) -> tuple[list[Tensor], Tensor]:
        there = [(score, y[rows]) for score, y in targets]
        totals = [torch.zeros_like(x[rows]) for _ in targets]
        for js in slices(len(weights), max(1, limit // (rows.stop - rows.start))):
            with torch.set_grad_enabled(create_graph):
                points = place(rows, js)
            gradients, logits = _gradients(model, points, there, weights[js], create_graph)
            totals = [t + g for t, g in zip(totals, gradients, strict=True)]
        return totals, logits[-(rows.stop - rows.start) :]

    with second_order(create_graph):  # once for all threads: the setting is process-wide
        found = map_chunks(model, x, x.shape[0], limit, of_rows, points=len(weights))
    sums, ends = zip(*found, strict=True)
    return GradientSums([torch.cat(parts) for parts in zip(*sums, strict=True)], torch.cat(ends))


def images_per_pass(x: Tensor) -> int:
    """Default number of images of the size of x per forward pass.

    >>> [images_per_pass(torch.empty(1, 3, side, side)) for side in (32, 128, 224, 1024)]
    [85, 8, 6, 1]
    """
    entries = math.prod(x.shape[1:])
    return max(1, PIXELS_PER_PASS // entries, min(FEWEST, MOST_PIXELS // entries))


def check_chunk(chunk: int | None) -> None:
    """Check that `chunk`, the bound on the images per forward pass, is at least 1 or None."""
    if chunk is not None and chunk < 1:
        raise expected("chunk >= 1 (the maximum number of images per forward pass) or None", got=chunk)


def _gradients(
    model: Model, points: Tensor | StraightPath, targets: Sequence[Target], weights: Tensor, create_graph: bool
) -> tuple[list[Tensor], Tensor]:
    """Weighted sums over the points of the gradients of each target's score, and the logits, from one forward pass.

    One shift, equal to zero, is added to all points of an example: the gradient in the shift is the sum of the
    gradients at the points.
    """
    with torch.enable_grad():
        path = None
        if isinstance(points, StraightPath):
            shift = torch.zeros_like(points.start).requires_grad_()
            path = points.shifted(shift)
            flat = path.points().flatten(0, 1)
        else:
            shift = torch.zeros_like(points[0]).requires_grad_()
            flat = (points + shift).flatten(0, 1)
        with fast_kernels_for(model, flat, weights=create_graph, path=path, twice=create_graph):
            logits = check_logits(model(flat), flat)
        count_gradients(flat.shape[0], len(targets), create_graph)
        share = weights.repeat_interleave(shift.shape[0])
        scores = [(share * score(logits, y.repeat(len(weights)))).sum() for score, y in targets]
        gradients = [
            gradient_of(s, shift, create_graph, keep=create_graph or i + 1 < len(scores)) for i, s in enumerate(scores)
        ]
        return gradients, logits if create_graph else logits.detach()


def count_gradients(images: int, targets: int, create_graph: bool) -> None:
    """Count the passes of one forward pass and of one gradient for each target.

    With create_graph, the next backward goes through every gradient, but only once through the shared forward.
    """
    add_passes(images, (1 + targets) * (2 if create_graph else 1))


def gradient_of(score: Tensor, point: Tensor, create_graph: bool, keep: bool) -> Tensor:
    """The gradient of `score` in `point`; `keep` keeps the graph of the forward pass for the next target."""
    found = None
    if score.requires_grad:
        (found,) = torch.autograd.grad(score, point, create_graph=create_graph, retain_graph=keep, allow_unused=True)
    if found is None:
        fix = "a layer detaches its input; holdfast.double_backward_audit(model, x) names it"
        raise expected("a score that depends differentiably on the image", got="no gradient", fix=fix)
    return found


def check_logits(logits: Tensor, x: Tensor) -> Tensor:
    """Check that the output is a tensor of logits [B, K], and return it."""
    if not isinstance(logits, Tensor):
        raise expected(
            "a model that returns logits [B, K]",
            got=type(logits).__name__,
            fix="wrap it in holdfast.Classifier(net), which accepts outputs with `.logits`",
        )
    if logits.dim() != 2 or logits.shape[0] != x.shape[0]:
        raise expected(f"logits [{x.shape[0]}, K]", got=f"shape {list(logits.shape)}")
    return logits
