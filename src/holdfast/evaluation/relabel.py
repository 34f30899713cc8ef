"""The predicted classes as labels, for images that have none."""

from dataclasses import replace

import torch
from torch import nn

from holdfast.data.dataset import Dataset, to_float
from holdfast.engine.checks import check_outputs
from holdfast.engine.modes import evaluating


def relabelled(model: nn.Module, data: Dataset, device: torch.device | str | None) -> Dataset:
    """The same images with the classes that the network predicts as labels."""
    with evaluating(model), torch.no_grad():
        found = [model(to_float(part, device)) for part in data.x.split(64)]
    check_outputs(logits := torch.cat(found))
    y = logits.argmax(1).cpu()
    names = data.class_names if int(y.max()) < len(data.class_names) else tuple(map(str, range(int(y.max()) + 1)))
    return replace(data, y=y, class_names=names)
