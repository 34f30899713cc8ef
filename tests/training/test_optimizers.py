"""Optimisers by hand: which parameters decay, and what one step does."""

import pytest
import torch
from tests.training.stand_in import plain_net
from torch import nn

from holdfast.errors import InputError
from holdfast.training import OPTIMIZERS, SGD, Adam


def net() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    nn.init.constant_(model[0].weight, 2.0)
    nn.init.constant_(model[0].bias, 3.0)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    return model


def test_decay_on_kernels_only_by_hand() -> None:
    model = net()
    SGD(lr=0.1, momentum=0.9, weight_decay=0.25)(model).step()
    assert model[0].weight.flatten().tolist() == pytest.approx([2 - 0.1 * (0.5 + 0.25 * 2)] * 2)
    assert model[0].bias.tolist() == pytest.approx([3 - 0.1 * 0.5] * 2)
    assert model[1].weight.tolist() == pytest.approx([1 - 0.1 * 0.5] * 2)


def test_decay_is_the_gradient_of_half_the_squared_norm() -> None:
    model = net()
    kernel = model[0].weight
    (0.5 * 0.25 * kernel.square().sum()).backward()  # adds to the gradient that is there
    expected_gradient = kernel.grad.clone()
    kernel.grad = torch.full_like(kernel, 0.5)
    before = kernel.detach().clone()
    SGD(lr=1.0, momentum=0.0, weight_decay=0.25)(model).step()
    torch.testing.assert_close(before - kernel.detach(), expected_gradient)


def test_momentum_by_hand() -> None:
    plain, nesterov = net(), net()
    for model, flag in ((plain, False), (nesterov, True)):
        optimizer = SGD(lr=0.1, momentum=0.5, nesterov=flag)(model)
        optimizer.step()
        optimizer.step()
    # plain: v = 0.5, then 0.75; Nesterov: g + 0.5 v = 0.75, then 0.875
    assert plain[0].weight[0].item() == pytest.approx(2 - 0.1 * (0.5 + 0.75))
    assert nesterov[0].weight[0].item() == pytest.approx(2 - 0.1 * (0.75 + 0.875))


def test_adam_is_pytorchs() -> None:
    ours, theirs = plain_net(), plain_net()
    one = Adam(lr=1e-3, betas=(0.8, 0.99), eps=1e-6)(ours)
    other = torch.optim.Adam(theirs.parameters(), lr=1e-3, betas=(0.8, 0.99), eps=1e-6)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(5, 1, 8, 8)
        for model, optimizer in ((ours, one), (theirs, other)):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_frozen_parameters_are_left_out() -> None:
    model = net()
    model[0].requires_grad_(False)
    groups = SGD(lr=0.1)(model).param_groups
    assert [p.dim() for group in groups for p in group["params"]] == [1, 1]
    with pytest.raises(InputError, match="trainable parameters"):
        Adam(lr=0.1)(model.requires_grad_(False))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("adam", {"lr": -1.0}),
        ("adam", {"lr": 1.0, "betas": (0.9, 1.0)}),
        ("sgd", {"lr": 1.0, "momentum": 1.0}),
        ("sgd", {"lr": 1.0, "weight_decay": -1.0}),
        ("sgd", {"lr": 1.0, "momentum": 0.0, "nesterov": True}),
    ],
)
def test_bad_settings_are_refused(name: str, options: dict) -> None:
    with pytest.raises(InputError, match="expected"):
        OPTIMIZERS[name](**options)
