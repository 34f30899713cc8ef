"""The first layer that does not hear the noise: hand-computed values, and the silence it promises."""

import pytest
import torch
from torch import nn

import holdfast as hf
from holdfast.errors import InputError
from holdfast.losses import DeadZone, FilterSpread


def network() -> nn.Sequential:
    """Two filters of 1 x 2; the first is quiet below 0.3, the second is not."""
    net = nn.Sequential(nn.Conv2d(1, 2, (1, 2)), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    net(torch.zeros(1, 1, 1, 4))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[2.0, -1.0], [1.0, 3.0]]).reshape(2, 1, 1, 2))
        net[0].bias.copy_(torch.tensor([-0.7, -0.2]))
    return net


def test_value_by_hand() -> None:
    x, y = torch.zeros(3, 1, 1, 4), torch.tensor([0, 1, 0])
    # filter 1: -0.7 + 0.3 * 2 = -0.1 -> 0; filter 2: -0.2 + 0.3 * (1 + 3) = 1.0; mean 0.5
    value = DeadZone(level=0.3)(network(), hf.Pair(x, x, y))
    torch.testing.assert_close(value, torch.full((3,), 0.5))


def test_a_quiet_first_layer_has_no_attribution_on_dark_pixels() -> None:
    net = network()
    with torch.no_grad():
        net[0].bias[1] = -1.2
    x, y = torch.full((1, 1, 1, 4), 0.3), torch.tensor([0])
    assert DeadZone(level=0.3)(net, hf.Pair(x, x, y)).item() == pytest.approx(0.0, abs=1e-7)
    assert torch.equal(hf.IntegratedGradients(steps=5)(net, x * 0.99, y), torch.zeros_like(x))


@pytest.mark.parametrize("model", [nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), nn.Conv2d(1, 2, 1, bias=False)])
def test_refuses_networks_without_such_a_layer(model: nn.Module) -> None:
    x, y = torch.zeros(1, 1, 1, 4), torch.tensor([0])
    with pytest.raises(InputError, match="first layer"):
        DeadZone(level=0.3)(model, hf.Pair(x, x, y))


def test_refuses_a_normalisation_before_it() -> None:
    x, y = torch.zeros(1, 1, 1, 4), torch.tensor([0])
    with pytest.raises(InputError, match="normalisation"):
        DeadZone(level=0.3)(hf.Classifier(network(), mean=0.5), hf.Pair(x, x, y))


def test_narrow_filters_by_hand() -> None:
    x, y = torch.zeros(2, 1, 1, 4), torch.tensor([0, 1])
    # |2| + |-1| - 2 = 1 and 1 + 3 - 3 = 1; mean 1
    torch.testing.assert_close(FilterSpread()(network(), hf.Pair(x, x, y)), torch.ones(2))
