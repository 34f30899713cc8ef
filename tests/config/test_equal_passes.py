"""Rows of one table that go on from the same network get the same number of example-passes, within 2 %."""

import pytest
import torch

import holdfast as hf
from holdfast.config import RunConfig, load_preset
from holdfast.config.methods import complete
from holdfast.recipes import METHODS

ROWS = ("madry-continued", "trades", "ig_norm", "ig_sum_norm", "erar", "igr", "erar_plus")
EQUAL = {
    "mnist": (600_000, (1, 28, 28), 10),
    "fashion-mnist": (600_000, (1, 28, 28), 10),
    "gtsrb": (303_000, (3, 32, 32), 43),
    "flower17": (64_700, (3, 32, 32), 17),
}
WIDE_ROWS = ("madry-continued", "trades", "art", "erar", "erar_plus")
WIDE = {"gtsrb-wrn": (100_000, (3, 32, 32), 43), "flower17-wrn": (40_000, (3, 64, 64), 17)}
ABLATIONS = ("cacr-only", "wacr-only", "1-0.7", "0.7-1", "no-nca", "no-base", "scale-100", "cacr-only-scale-100")
RIVALS = ("lga", "r2et", "adv_aat", "curvature", "natural-softplus", "natural-weight-decay", "natural-small-batches")
WITH_SMALL_CNN = ("madry-first-layer", "erar_plus-first-layer", *(f"erar-{name}" for name in ABLATIONS), *RIVALS)


@pytest.mark.parametrize(
    ("dataset", "method"),
    [
        *((name, row) for name in EQUAL for row in ROWS),
        *((name, row) for name in ("mnist", "fashion-mnist") for row in WITH_SMALL_CNN),
        *(("gtsrb", row) for row in ("adv_aat", "lga")),
        *(("flower17", f"erar-{name}") for name in ABLATIONS),
        *((name, row) for name in WIDE for row in WIDE_ROWS),
    ],
)
def test_equal_passes(dataset: str, method: str) -> None:
    wanted, shape, classes = (EQUAL | WIDE)[dataset]
    passes, start = 0.0, method
    while start != "madry":
        config = complete(load_preset(f"{dataset}/{start}:cpu"))
        passes += passes_of(config, shape, classes)
        assert config.train.init is not None
        start = config.train.init
    assert passes == pytest.approx(wanted, rel=0.02)


def passes_of(config: RunConfig, shape: tuple[int, int, int], classes: int) -> float:
    """Example-passes of a run, without those it starts from."""
    net = hf.models.build(
        config.model.name, **config.model.options, num_classes=classes, in_channels=shape[0], image_size=shape[1:]
    )
    objective = METHODS[config.method.name](net, **config.method.settings)
    batch = 10
    objective(torch.rand(batch, *shape), torch.arange(batch) % classes, torch.arange(batch))
    return objective.example_passes / batch * config.train.steps * config.train.batch_size
