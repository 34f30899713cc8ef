"""Checks before an audit attacks anything: some image is predicted correctly, and some map has a ranking."""

import torch
from torch import Tensor, nn

from holdfast.attribution.saliency import saliency_map
from holdfast.data.dataset import Dataset, to_float
from holdfast.engine.checks import check_labels
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.errors import expected
from holdfast.types import Attribution

FEW_MAPS = 4
"""Maps that are looked at first; only if all of them are constant are the others computed, too."""


def check_before_attacks(
    model: nn.Module, data: Dataset, attribution: Attribution, device: torch.device | str | None
) -> None:
    """Raise if no image of `data` can be attacked: none is predicted correctly, or every map is constant."""
    x, y = to_float(data.x, device), data.y.to(device)
    with evaluating(model):
        found = predictions(model, x, images_per_pass(x), check=True)
        check_labels(y, len(y), found.classes)
        right = (found.labels == y).nonzero().flatten()
        if not len(right):
            fix = (
                "check the order of the classes (classes=FILE), the normalisation and the weights, "
                "or explain the predictions with labels='predicted'"
            )
            raise expected("images that the network predicts correctly", got=f"none of {len(y)}", fix=fix)
        _check_maps(model, x, y, right, attribution)


def _check_maps(model: nn.Module, x: Tensor, y: Tensor, right: Tensor, attribution: Attribution) -> None:
    for rows in (right[:FEW_MAPS], right[FEW_MAPS:]):
        if len(rows) and not bool(constant_maps(saliency_map(attribution(model, x[rows], y[rows]).detach())).all()):
            return
    fix = "check that the network's output depends on its input and that its weights are loaded, or choose another map"
    found = f"a constant map for each of the {len(right)} correctly predicted images"
    raise expected("maps with a ranking of pixels", got=found if len(right) > 1 else "a constant map", fix=fix)


def constant_maps(maps: Tensor) -> Tensor:
    """bool [B]: the maps [B, H, W] without a ranking: all entries are equal, or some are not finite."""
    flat = maps.flatten(1)
    return (flat.amax(1) == flat.amin(1)) | ~flat.isfinite().all(1)
