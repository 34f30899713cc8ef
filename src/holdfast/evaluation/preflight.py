"""Checks before anything is attacked or written.

Some image is predicted correctly, some map has a ranking, and the network can be differentiated twice if an attack
needs that.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attacks.base import ExplanationAttack
from holdfast.attacks.strongest import StrongestAttack
from holdfast.attribution.saliency import saliency_map
from holdfast.data.dataset import Dataset, to_float
from holdfast.engine.checks import check_labels
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.errors import expected
from holdfast.models import Classifier
from holdfast.models.double_backward import require_second_order
from holdfast.models.probe import probe_as_they_are
from holdfast.types import Attribution, Model

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


def check_network(
    model: Model, data: Dataset, attacks: Iterable[ExplanationAttack], device: torch.device | str | None
) -> None:
    """Raise if the network does not take the images, or if `check_second_order` does."""
    if len(data) and isinstance(model, nn.Module):
        network = model if isinstance(model, Classifier) else Classifier(model)
        probe_as_they_are(network, to_float(data.x[:2], device))
    check_second_order(model, data, attacks, device)


def check_second_order(
    model: Model, data: Dataset, attacks: Iterable[ExplanationAttack], device: torch.device | str | None
) -> None:
    """Raise if some attack differentiates a gradient and a layer of the network does not allow that."""
    if len(data) and any(needs_second_order(attack) for attack in attacks):
        require_second_order(model, to_float(data.x[:1], device))


def needs_second_order(attack: Any) -> bool:
    """Whether an attack differentiates the gradient of the network; an ensemble does if one of its members does.

    >>> from holdfast.recipes import AttackSettings, make_attacks
    >>> attacks = make_attacks(AttackSettings(eps=0.1, steps=1, k=5), ["ifia-topk", "strongest", "random"])
    >>> [needs_second_order(attack) for attack in attacks.values()]
    [True, True, False]
    """
    if isinstance(attack, StrongestAttack):
        return True
    members = getattr(attack, "members", None)
    if isinstance(members, Mapping):
        return any(needs_second_order(member) for member in members.values())
    return bool(getattr(getattr(getattr(attack, "pgd", None), "loss", None), "second_order", False))


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
