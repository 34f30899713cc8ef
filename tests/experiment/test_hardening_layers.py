"""Which layers train during hardening, by hand."""

import pytest
from torch import nn

from holdfast.experiment.hardening.layers import fine_tuning_modes


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm])
@pytest.mark.parametrize("batch_norm", ["fixed", "update"])
def test_every_batch_norm_is_fixed_or_updated(kind: type[nn.Module], batch_norm: str) -> None:
    model = nn.Sequential(kind(4), nn.GroupNorm(2, 4), nn.Dropout()).eval()
    with fine_tuning_modes(model, batch_norm=batch_norm):
        assert [layer.training for layer in model] == [batch_norm == "update", True, True]
    assert not any(layer.training for layer in model.modules())
