"""Rows of one table that go on from the same network get the same number of example-passes, within 2 %."""

import pytest
import torch

import holdfast as hf
from holdfast.config import load_preset
from holdfast.config.methods import complete
from holdfast.recipes import METHODS

ROWS = ("madry-continued", "trades", "ig_norm", "ig_sum_norm", "erar", "igr", "erar_plus")
EQUAL = {"gtsrb": (303_000, (3, 32, 32), 43), "flower17": (64_700, (3, 32, 32), 17)}


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("dataset", EQUAL)
def test_equal_passes(dataset: str, method: str) -> None:
    wanted, shape, classes = EQUAL[dataset]
    config = complete(load_preset(f"{dataset}/{method}:cpu"))
    assert config.train.init == "madry"
    net = hf.models.build(
        config.model.name, **config.model.options, num_classes=classes, in_channels=shape[0], image_size=shape[1:]
    )
    objective = METHODS[config.method.name](net, **config.method.settings)
    batch = 10
    objective(torch.rand(batch, *shape), torch.arange(batch), torch.arange(batch))
    per_example = objective.example_passes / batch
    assert per_example * config.train.steps * config.train.batch_size == pytest.approx(wanted, rel=0.02)
