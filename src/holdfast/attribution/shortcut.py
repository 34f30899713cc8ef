"""Integrated gradients from one gradient, for networks with f(a x) = f(x): IG = H_m x * grad s(f(x))."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attribution.base import Maps
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.quadrature import first_point
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.parallel import slices
from holdfast.models.scale_invariance import is_scale_invariant, scale_invariant_images
from holdfast.types import Model, Target

if TYPE_CHECKING:
    from holdfast.attribution.integrated import IntegratedGradients


def applies(ig: "IntegratedGradients", model: Model, x: Tensor) -> Tensor:
    """bool [B]: the images for which one gradient is enough, decided for each image independently of the batch."""
    declared = ig.shortcut if ig.shortcut is not None else getattr(model, "scale_invariant", None)
    if ig.scale_factor() is None:
        declared = False
    if declared is not None:
        return x.new_full((x.shape[0],), bool(declared), dtype=torch.bool)
    return _shows_scale_invariance(model, x.detach(), smallest=first_point(ig.rule, ig.steps))


def maps(
    ig: "IntegratedGradients",
    model: Model,
    x: Tensor,
    targets: Sequence[Target],
    short: Tensor,
    *,
    create_graph: bool,
) -> Maps:
    """One gradient for the images in `short` [B], all points of the path for the others."""
    if bool(short.all()):
        found = Gradient(chunk=ig.chunk).maps(model, x, targets, create_graph=create_graph)
        factor = ig.scale_factor()
        assert factor is not None  # `applies` selects images only if the factor exists
        return Maps([factor * x * gradient for gradient in found.maps], found.logits)
    groups = [rows.nonzero().flatten() for rows in (short, ~short)]
    parts = [
        replace(ig, shortcut=takes_it).maps(
            model, x[rows], [(score, y[rows]) for score, y in targets], create_graph=create_graph
        )
        for rows, takes_it in zip(groups, (True, False), strict=True)
    ]
    order = torch.cat(groups).argsort()
    merged = [torch.cat(pieces)[order] for pieces in zip(*(part.maps for part in parts), strict=True)]
    ends = [part.logits for part in parts]
    logits = None if any(end is None for end in ends) else torch.cat([e for e in ends if e is not None])[order]
    return Maps(merged, logits)


def _shows_scale_invariance(model: Model, x: Tensor, smallest: float) -> Tensor:
    """Test the scale invariance numerically, bool [B].

    One random image is tested first. Most networks fail there, so the images of the batch need no test.
    """
    scales = (0.5, 0.1, smallest)
    probe = rng.uniform(torch.zeros(1, dtype=torch.int64, device=x.device), x[:1])
    if not is_scale_invariant(model, probe, scales=scales):
        return torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
    parts = [scale_invariant_images(model, x[part], scales=scales) for part in slices(x.shape[0], images_per_pass(x))]
    return torch.cat(parts)
