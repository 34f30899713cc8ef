"""Pictures of a few examples: clean and perturbed images with their maps."""

from collections.abc import Sequence

import torch

from holdfast.attribution.saliency import map_of
from holdfast.data.dataset import Dataset
from holdfast.engine.modes import evaluating
from holdfast.evaluation.protocol import EvaluationProtocol, tensors
from holdfast.runs.panels import Panels
from holdfast.runs.rows import ExampleRow
from holdfast.types import Model

WORST = 3
"""Number of the most damaged examples that are kept as pictures."""


def make_panels(
    model: Model,
    subset: Dataset,
    protocol: EvaluationProtocol,
    rows: Sequence[ExampleRow],
    device: torch.device | str | None,
) -> Panels | None:
    """Pictures of the three images that keep least of their maps, and of the first few, the same for every network.

    The attack that is pictured runs on these images once more. Its result depends only on the example, so the pictures
    match the rows, even if the rows were written before an interruption.
    """
    name = protocol.pictured or next(iter(protocol.attacks))
    attack = protocol.attacks[name]
    positions = {example: row for row, example in enumerate(subset.ids.tolist())}
    moved = [row for row in rows if row.attack == name and row.outcome == "attacked"]
    moved.sort(key=lambda row: [row.score(metric) or 0 for metric in ("top_k", "kendall")])
    chosen = list(dict.fromkeys([*(row.id for row in moved[:WORST]), *subset.ids.tolist()[: protocol.panels]]))
    if not protocol.panels or not chosen or subset.image_shape[0] not in (1, 3):
        return None
    part = subset.subset([positions[i] for i in chosen])
    x, y, keys = tensors(part, protocol.seed, device)
    x_adv = attack(model, x, y, keys=keys)
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
