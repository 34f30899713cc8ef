"""Pictures of a few examples: clean and perturbed images with their maps."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from holdfast.attribution.saliency import map_of
from holdfast.data.dataset import Dataset
from holdfast.engine.modes import evaluating
from holdfast.errors import DataError
from holdfast.evaluation.perturbed import Key, can_be_pictured, worst_rows
from holdfast.evaluation.protocol import EvaluationProtocol, tensors
from holdfast.runs.panels import Panels, read_panels
from holdfast.runs.rows import ExampleRow
from holdfast.types import Model


def make_panels(
    model: Model,
    subset: Dataset,
    protocol: EvaluationProtocol,
    rows: Sequence[ExampleRow],
    device: torch.device | str | None,
    perturbed: Mapping[Key, Tensor],
    stored: Panels | None = None,
) -> Panels | None:
    """Pictures of the three images that keep least of their maps, and of the first few, the same for every network.

    `perturbed` holds the perturbed images that the evaluation has kept; an image that is not among them is attacked
    again. `stored` are the pictures of an earlier call: if nothing is newer, they are returned.
    """
    name = protocol.pictured or next(iter(protocol.attacks))
    worst = worst_rows(row for row in rows if row.attack == name)
    chosen = list(dict.fromkeys([*(row.id for row in worst), *subset.ids.tolist()[: protocol.panels]]))
    if not protocol.panels or not chosen or not can_be_pictured(subset):
        return None
    kept = {example: perturbed[name, example] for example in chosen if (name, example) in perturbed}
    if not kept and stored is not None and (stored.attack, stored.ids.tolist()) == (name, chosen):
        return stored
    positions = {example: row for row, example in enumerate(subset.ids.tolist())}
    part = subset.subset([positions[i] for i in chosen])
    return _panels(model, part, name, protocol, kept, device)


def stored_panels(folder: Path | None) -> Panels | None:
    """The pictures in a run directory; None if there are none or the file is damaged."""
    try:
        return None if folder is None else read_panels(folder / "panels.npz")
    except DataError:
        return None


def _panels(
    model: Model,
    part: Dataset,
    name: str,
    protocol: EvaluationProtocol,
    kept: Mapping[int, Tensor],
    device: torch.device | str | None,
) -> Panels:
    attack = protocol.attacks[name]
    x, y, keys = tensors(part, protocol.seed, device)
    found = dict(kept)
    missing = [row for row, example in enumerate(part.ids.tolist()) if example not in kept]
    if missing:
        again = attack(model, x[missing], y[missing], keys=keys[missing])
        found |= dict(zip(part.ids[missing].tolist(), again, strict=True))
    x_adv = torch.stack([found[example].to(x) for example in part.ids.tolist()])
    with evaluating(model), torch.no_grad():
        shown = [map_of(model, image, y, attack.attribution).half().cpu().numpy() for image in (x, x_adv)]
        predicted = model(x).argmax(1).cpu().numpy()
    return Panels(
        attack=name,
        ids=part.ids.numpy(),
        labels=part.y.numpy(),
        predictions=predicted,
        clean=part.x.numpy(),
        perturbed=x_adv.half().cpu().numpy(),
        clean_map=shown[0],
        perturbed_map=shown[1],
        names=part.file_names,
    )
