"""The smooth twin reaches every ReLU, is what its formula says, and leaves the network as it was."""

import math

import pytest
import torch
import torch.nn.functional as F
from tests.nets import AwkwardReLUs, BatchNormNet
from torch import nn

from holdfast.errors import InputError
from holdfast.models import softplus_surrogate

X = torch.linspace(-1, 1, 32).reshape(2, 1, 4, 4)


def test_softplus_by_hand() -> None:
    z = torch.tensor([-1.0, 0.0, 2.0])
    with softplus_surrogate(beta=1.0):
        torch.testing.assert_close(F.relu(z), torch.tensor([math.log(1 + math.exp(v)) for v in (-1, 0, 2)]))
    with softplus_surrogate(beta=3.0):
        torch.testing.assert_close(nn.ReLU()(z), torch.tensor([math.log(1 + math.exp(3 * v)) / 3 for v in (-1, 0, 2)]))


def test_leaky_form_by_hand() -> None:
    z = torch.tensor([-1.0, 2.0])
    with softplus_surrogate(beta=1.0):
        soft = [0.1 * v + 0.9 * math.log(1 + math.exp(v)) for v in (-1, 2)]
        torch.testing.assert_close(nn.LeakyReLU(0.1)(z), torch.tensor(soft))


def test_hard_tanh_and_relu6_by_hand() -> None:
    z = torch.tensor([-1.0, 7.0])
    soft = [math.log(1 + math.exp(v)) - math.log(1 + math.exp(v - 6)) for v in (-1, 7)]
    with softplus_surrogate(beta=1.0):
        for relu6 in (nn.ReLU6(), F.relu6, nn.Hardtanh(0.0, 6.0)):
            torch.testing.assert_close(relu6(z), torch.tensor(soft))


def test_reaches_every_call_in_any_network() -> None:
    with softplus_surrogate() as twin:
        AwkwardReLUs()(X)
    assert twin.swapped == 9
    with softplus_surrogate() as twin:
        nn.Sequential(nn.Flatten(), nn.Linear(16, 2), nn.GELU())(X)
    assert twin.swapped == 0


@pytest.mark.parametrize("build", [AwkwardReLUs, BatchNormNet])
def test_converges_to_the_network_as_beta_grows(build: type[nn.Module]) -> None:
    model = build().double().eval()
    reference = model(X.double())
    gaps = []
    for beta in (1.0, 10.0, 100.0, 1e4, 1e6):
        with softplus_surrogate(beta=beta):
            gaps.append(float((model(X.double()) - reference).detach().abs().max()))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 1e-2
    assert gaps[-1] < 1e-5


@pytest.mark.parametrize("build", [AwkwardReLUs, BatchNormNet])
def test_twin_has_exact_first_and_second_derivatives(build: type[nn.Module]) -> None:
    model = build().double().eval()
    x = X.double().requires_grad_()
    with softplus_surrogate():
        assert torch.autograd.gradcheck(model, x)
        assert torch.autograd.gradgradcheck(model, x)


def test_in_place_calls_still_overwrite_their_input() -> None:
    z = torch.tensor([-1.0, 2.0])
    with softplus_surrogate():
        result = F.relu_(z)
    assert result is z
    torch.testing.assert_close(z, F.softplus(torch.tensor([-1.0, 2.0])))


def test_network_is_untouched_afterwards() -> None:
    model = AwkwardReLUs()
    before = model(X)
    with softplus_surrogate():
        model(X)
    assert torch.equal(model(X), before)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan])
def test_beta_must_be_positive(beta: float) -> None:
    with pytest.raises(InputError, match="beta > 0"):
        softplus_surrogate(beta=beta)
