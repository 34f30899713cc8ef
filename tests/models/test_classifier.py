"""The wrapper from pixels to logits, and per-image standardisation."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from holdfast.errors import InputError
from holdfast.models import Classifier, build
from holdfast.models.networks.standardize import standardize


class Returns(nn.Module):
    """A network whose output is a fixed function of its input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor):
        return self.function(x)


FLATTEN = nn.Flatten()
IMAGE = torch.tensor([[[[0.0, 0.5]], [[0.25, 1.0]]]])  # [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("mean", "std", "logits"),
    [
        (None, None, [0.0, 0.5, 0.25, 1.0]),
        (0.5, None, [-0.5, 0.0, -0.25, 0.5]),
        (None, 0.5, [0.0, 1.0, 0.5, 2.0]),
        ([0.5, 0.25], [0.5, 0.25], [-1.0, 0.0, 0.0, 3.0]),
        (torch.tensor([0.5, 0.0]), [2.0], [-0.25, 0.0, 0.125, 0.5]),
    ],
)
def test_normalisation_per_channel(mean, std, logits):
    assert Classifier(FLATTEN, mean, std)(IMAGE).tolist() == [logits]


def test_input_of_any_rank_is_normalised_along_its_second_dimension():
    assert Classifier(nn.Identity(), mean=[1.0, 2.0])(torch.tensor([[1.0, 4.0]])).tolist() == [[0.0, 2.0]]


def test_statistics_are_buffers_that_follow_the_module():
    model = Classifier(FLATTEN, mean=0.5, std=[0.5, 0.25]).double()
    assert set(model.state_dict()) == {"mean", "std"}
    assert not list(model.parameters())
    assert model(IMAGE.double()).dtype == torch.float64


def test_statistics_are_copies():
    mean = torch.tensor([0.5])
    model = Classifier(FLATTEN, mean=mean)
    mean.zero_()
    assert model.mean.tolist() == [0.5]


def test_without_statistics_the_weights_are_those_of_the_network():
    assert set(Classifier(nn.Linear(2, 2)).state_dict()) == {"net.weight", "net.bias"}


def test_object_with_logits():
    net = Returns(lambda x: SimpleNamespace(logits=x.flatten(1), loss=None))
    assert Classifier(net)(IMAGE).shape == (1, 4)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: (x, x.flatten(1)), r"got a tuple of a tensor of shape \[1, 2, 1, 2\], a tensor of shape \[1, 4\]"),
        (lambda x: {"out": x}, r"got a dict with the keys \['out'\]"),
        (lambda x: x, r"got a tensor of shape \[1, 2, 1, 2\]"),
        (lambda x: x.sum(), r"got a tensor of shape \[\]"),
        (lambda x: x.reshape(2, 2), r"logits \[1, K\] .* got a tensor of shape \[2, 2\]"),
        (lambda x: SimpleNamespace(logits=x), r"got a tensor of shape \[1, 2, 1, 2\]"),
        (lambda x: SimpleNamespace(logits=(x,)), r"got a tuple of a tensor"),
        (lambda x: None, r"got an object of type NoneType"),
        (lambda x: [], r"got a list of nothing"),
    ],
)
def test_other_outputs_are_refused(function, message):
    with pytest.raises(InputError, match=message):
        Classifier(Returns(function))(IMAGE)


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize("value", [float("nan"), [0.5, float("inf")], [], [[0.5]], "grey"])
def test_bad_statistics_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        Classifier(FLATTEN, **{name: value})


@pytest.mark.parametrize("std", [0.0, [0.5, -0.5]])
def test_std_must_be_positive(std):
    with pytest.raises(InputError, match="std > 0"):
        Classifier(FLATTEN, std=std)


@pytest.mark.parametrize("name", ["mean", "std"])
def test_number_of_channels_must_agree(name):
    with pytest.raises(InputError, match=rf"{name} with 1 or 2 values .* got 3"):
        Classifier(FLATTEN, **{name: [0.5, 0.5, 0.5]})(IMAGE)


def test_integer_pixels_are_refused():
    with pytest.raises(InputError, match=r"got torch.uint8 \[1, 2, 1, 2\]; .*divide integer pixels by 255"):
        Classifier(FLATTEN)(IMAGE.to(torch.uint8))


def test_network_must_be_a_module():
    with pytest.raises(InputError, match=r"torch.nn.Module, got function"):
        Classifier(lambda x: x)


def test_scale_invariance_is_declared_only_where_it_holds():
    net = build("paper-resnet", units_per_stage=1, seed=0)
    assert Classifier(net).scale_invariant
    assert Classifier(net, std=[0.2, 0.3, 0.4]).scale_invariant
    assert Classifier(Classifier(net)).scale_invariant
    assert Classifier(net, mean=0.5).scale_invariant is None
    assert Classifier(FLATTEN).scale_invariant is None
    assert Classifier(build("digits-cnn")).scale_invariant is False


def test_std_keeps_the_scale_invariance():
    model = Classifier(build("paper-resnet", units_per_stage=1, seed=0), std=[0.2, 0.3, 0.4]).double()
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(0.1 * x), model(x), rtol=0, atol=1e-9)


def test_standardize_by_hand():
    # mean 0.5, deviations -0.3, -0.1, 0.1, 0.3, variance (0.09 + 0.01 + 0.01 + 0.09) / 4 = 0.05
    x = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64).reshape(1, 1, 2, 2)
    wanted = torch.tensor([-0.3, -0.1, 0.1, 0.3], dtype=torch.float64) / 0.05**0.5
    torch.testing.assert_close(standardize(x).flatten(), wanted)


def test_standardize_uses_all_channels_of_one_image_only():
    x = torch.rand(3, 3, 4, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.1, 0.5, 1]).view(
        3, 1, 1, 1
    )
    flat = standardize(x).flatten(1)
    torch.testing.assert_close(flat.mean(1), torch.zeros(3), rtol=0, atol=1e-6)
    torch.testing.assert_close(flat.std(1, correction=0), torch.ones(3))


def test_standardize_divides_by_the_floor_below_it():
    # N = 4: floor 1 / 510; deviations of 1 / 5100 are a tenth of it
    x = 0.5 + torch.tensor([-1.0, 1.0, -1.0, 1.0], dtype=torch.float64).reshape(1, 1, 2, 2) / 5100
    wanted = torch.tensor([-0.1, 0.1, -0.1, 0.1], dtype=torch.float64)
    torch.testing.assert_close(standardize(x).flatten(), wanted, rtol=1e-9, atol=0)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_standardize_is_twice_differentiable_on_constant_images(value):
    x = torch.full((2, 3, 4, 4), value, requires_grad=True)
    weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
    out = standardize(x)
    (first,) = torch.autograd.grad((weights * out.sin()).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert out.isfinite().all()
    assert first.isfinite().all()
    assert first.abs().sum() > 0
    assert second.isfinite().all()


@pytest.mark.parametrize("spread", [0.3, 1e-4])
def test_standardize_derivatives_above_and_below_the_floor(spread):
    noise = torch.rand(2, 1, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = (0.4 + spread * noise).requires_grad_()
    assert torch.autograd.gradcheck(standardize, x, eps=1e-8, atol=1e-4, rtol=1e-4)
    assert torch.autograd.gradgradcheck(standardize, x, eps=1e-8, atol=1e-3, rtol=1e-3)
