"""Residual networks run in channels_last: same values and derivatives as the plain network, chosen from its layers."""

import pytest
import torch
from pytorchcv.models.resnet_cifar import resnet20_cifar10
from torch import Tensor, nn

import holdfast as hf
from holdfast.engine.cpu_kernels import fast_kernels, fast_kernels_for
from holdfast.engine.layout import layout_of

LAST, USUAL = torch.channels_last, torch.contiguous_format


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    found = {
        "paper-resnet": hf.models.build("paper-resnet", num_classes=5, units_per_stage=1, seed=0),
        "wrn-10-1": hf.models.build("wrn-10-1", num_classes=5, seed=0),
        "resnet20": resnet20_cifar10(num_classes=10),
    }
    for net in found.values():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):  # statistics and weights as training leaves them
                module.running_mean.uniform_(-0.5, 0.5)
                module.running_var.uniform_(0.5, 2.0)
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)
    return {name: net.double().eval() for name, net in found.items()}


NETWORKS = networks()


def images(seed: int = 0) -> Tensor:
    return torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(seed)).double()


def test_the_layout_follows_from_the_layers() -> None:
    assert all(layout_of(net) is LAST for net in NETWORKS.values())
    assert layout_of(hf.models.build("paper-cnn", seed=0)) is USUAL  # 5 x 5 kernels
    assert layout_of(hf.models.build("digits-cnn", seed=0)) is USUAL  # too few convolutions
    assert layout_of(lambda x: x.flatten(1)) is USUAL
    depthwise = nn.Sequential(*(nn.Conv2d(8, 8, 3, groups=8) for _ in range(4)))
    assert layout_of(depthwise) is USUAL


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("twice", [False, True])
def test_values_and_first_derivatives_are_those_of_the_plain_network(name: str, twice: bool) -> None:
    net, y = NETWORKS[name], torch.tensor([0, 1, 2])
    results = []
    for mode in (None, fast_kernels(layout=LAST, twice=twice)):
        x = images().requires_grad_()
        if mode is None:
            logits = net(x)
        else:
            with mode:
                logits = net(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        results.append((logits.detach(), *torch.autograd.grad(loss, [x, *net.parameters()])))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain)


@pytest.mark.parametrize("name", NETWORKS)
def test_second_derivatives_are_those_of_the_plain_network(name: str) -> None:
    net, results = NETWORKS[name], []
    for fast in (False, True):
        x = images().requires_grad_()
        with hf.softplus_surrogate(beta=3.0):
            if fast:
                with fast_kernels_for(net, x, weights=False, twice=True):
                    score = net(x)[:, 1].sum()
            else:
                score = net(x)[:, 1].sum()
        (gradient,) = torch.autograd.grad(score, x, create_graph=True)
        results.append(torch.autograd.grad((gradient * x).square().sum(), x)[0])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", NETWORKS)
def test_maps_and_attacks_are_those_of_the_plain_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = NETWORKS[name], images(1)
    y, keys = net(x).argmax(1), torch.arange(3)
    attack = hf.recipes.ifia(eps=0.05, step_size=0.02, steps=2, k=20, ig_steps=3, kind="cosine")
    fast = hf.IntegratedGradients(steps=3)(net, x, y), attack(net, x, y, keys=keys)
    for module in ("engine.gradients", "engine.predictions", "losses.context"):
        monkeypatch.setattr(f"holdfast.{module}.fast_kernels_for", lambda *_, **__: torch.enable_grad())
    plain = hf.IntegratedGradients(steps=3)(net, x, y), attack(net, x, y, keys=keys)
    torch.testing.assert_close(fast[0], plain[0])
    torch.testing.assert_close(fast[1], plain[1])


def test_batch_norm_that_is_trained_or_in_training_mode_is_left_alone() -> None:
    norm, x = nn.BatchNorm2d(4).double(), torch.rand(2, 4, 5, 5).double()
    before = norm.running_mean.clone()
    with fast_kernels():
        norm(x)
    assert not torch.equal(norm.running_mean, before)
    norm.eval()
    with fast_kernels():
        loss = norm(x).square().sum()
    loss.backward()
    assert norm.weight.grad is not None
    frozen = nn.BatchNorm2d(4, affine=False).double().eval()
    with fast_kernels():
        torch.testing.assert_close(frozen(x), nn.functional.batch_norm(x, frozen.running_mean, frozen.running_var))
