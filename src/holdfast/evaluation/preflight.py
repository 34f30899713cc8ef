"""Checks before an audit attacks anything, and what its accuracy says about the network and its labels."""

import math

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

CHANCE_LEVEL = 0.05
"""Accuracy counts as chance if guessing is at least as good with this probability."""


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
    fix = "check that its output depends on its input, and that its weights are loaded; or choose another map"
    raise expected("maps with a ranking of pixels", got=f"constant maps for all {len(right)} images", fix=fix)


def constant_maps(maps: Tensor) -> Tensor:
    """bool [B]: the maps [B, H, W] without a ranking: all entries are equal, or some are not finite."""
    flat = maps.flatten(1)
    return (flat.amax(1) == flat.amin(1)) | ~flat.isfinite().all(1)


def chance_note(right: int, n: int, classes: int) -> str:
    """A note if the accuracy is not better than guessing, else ""; by the binomial tail P(X >= right).

    >>> chance_note(9, 100, 10)
    'accuracy is at chance level: 9 of 100 predictions are right, and guessing among 10 classes gives 10 on average'
    >>> chance_note(90, 100, 10)
    ''
    """
    if n == 0 or classes < 2 or binomial_tail(right, n, 1 / classes) < CHANCE_LEVEL:
        return ""
    average = f"{n / classes:.0f}" if n / classes >= 1 else "fewer than 1"
    guessing = f"guessing among {classes} classes gives {average} on average"
    return f"accuracy is at chance level: {right} of {n} predictions are right, and {guessing}"


def binomial_tail(least: int, n: int, p: float) -> float:
    """P(X >= least) for X ~ Binomial(n, p), with 0 < p < 1.

    >>> round(binomial_tail(2, 2, 0.5), 6), binomial_tail(0, 5, 0.1)
    (0.25, 1.0)
    """
    if least <= 0:
        return 1.0
    log_p, log_q, whole = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    terms = [
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q)
        for k in range(least, n + 1)
    ]
    return min(1.0, math.fsum(terms))
