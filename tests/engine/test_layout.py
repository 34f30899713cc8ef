"""Residual networks run in channels_last: same values and derivatives as the plain network, chosen from its layers."""

from collections.abc import Callable

import pytest
import torch
from pytorchcv.models.resnet_cifar import resnet20_cifar10
from torch import Tensor, nn

import holdfast as hf
from holdfast.engine.cpu_kernels import fast_kernels, fast_kernels_for
from holdfast.engine.layout import copies_of, laid_out, layout_of
from holdfast.engine.modes import frozen

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
def test_maps_and_attacks_are_those_of_the_plain_engine(name: str) -> None:
    net, x = NETWORKS[name], images(1)
    y, keys = net(x).argmax(1), torch.arange(3)
    attack = hf.recipes.ifia(eps=0.05, step_size=0.02, steps=2, k=20, ig_steps=3, kind="cosine")
    fast = hf.IntegratedGradients(steps=3)(net, x, y), attack(net, x, y, keys=keys)
    with hf.plain_kernels():
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
    bare = nn.BatchNorm2d(4, affine=False).double().eval()
    with fast_kernels():
        torch.testing.assert_close(bare(x), nn.functional.batch_norm(x, bare.running_mean, bare.running_var))


def called(work: Callable[[], object]) -> set[str]:
    """The names of the operations that `work` runs."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        work()
    return {event.key for event in seen.key_averages()}


def test_batch_norm_of_a_frozen_network_is_a_scale_and_a_shift() -> None:
    net, x = NETWORKS["wrn-10-1"], images()
    with frozen(net):
        names = called(lambda: hf.attribution.Gradient()(net, x, torch.zeros(3, dtype=torch.int64), create_graph=True))
    assert "aten::addcmul" in names
    assert not {"aten::native_batch_norm", "aten::batch_norm"} & names


@pytest.mark.parametrize("keep", [False, True])
def test_mean_over_the_image_has_the_values_of_the_library_and_keeps_the_layout(keep: bool) -> None:
    x = torch.randn(2, 8, 4, 4, dtype=torch.float64).to(memory_format=torch.channels_last).requires_grad_()
    with fast_kernels(layout=torch.channels_last):
        found = [x.mean((2, 3), keep), torch.mean(x, [-1, -2], keep)]
        pooled, other = nn.functional.adaptive_avg_pool2d(x, 1), x.mean((1, 2)).sum() + x.mean() + x.mean(1).sum()
    for mean in found:
        torch.testing.assert_close(mean, x.mean((2, 3), keepdim=keep))
        (slope,) = torch.autograd.grad(mean.square().sum(), x)
        assert slope.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(pooled, x.mean((2, 3), keepdim=True))
    torch.testing.assert_close(other, x.mean((1, 2)).sum() + x.mean() + x.mean(1).sum())


def test_weights_are_copied_once_while_they_are_frozen_and_again_when_they_change() -> None:
    weight = nn.Parameter(torch.randn(8, 8, 3, 3), requires_grad=False)
    net = nn.Sequential(nn.Conv2d(8, 8, 3))
    net[0].weight = weight
    with frozen(net):
        copies = copies_of(net)
        first = laid_out(weight, torch.channels_last, copies)
        assert laid_out(weight, torch.channels_last, copies) is first
        with frozen(net):  # nested: the copies of the outer block are used, and kept
            assert copies_of(net) is copies
        assert copies_of(net) is copies
        with torch.no_grad():
            weight.add_(1)
        torch.testing.assert_close(laid_out(weight, torch.channels_last, copies), weight, rtol=0, atol=0)
        computed = weight * 2
        assert laid_out(computed, torch.channels_last, copies) is not laid_out(computed, torch.channels_last, copies)
    assert copies_of(net) is None


def test_an_attack_after_a_training_step_sees_the_new_weights() -> None:
    net, x = hf.models.build("paper-resnet", num_classes=3, units_per_stage=1, seed=0).double(), images()
    attack = hf.PGD(hf.losses.CrossEntropy(), ball=hf.Linf(0.1), steps=2, step_size=0.05, best_by=hf.LAST)
    y, keys = torch.tensor([0, 1, 2]), torch.arange(3)
    attack(net, x, y, keys=keys)
    for weight in net.parameters():
        weight.data.mul_(-0.5)  # does not count as a change of its version
    after = attack(net, x, y, keys=keys)
    with hf.plain_kernels():
        torch.testing.assert_close(after, attack(net, x, y, keys=keys))


def test_a_weight_without_a_version_is_copied_each_time() -> None:
    class Unversioned(nn.Parameter):
        @property
        def _version(self) -> int:
            raise AttributeError

    net = nn.Sequential(nn.Conv2d(8, 8, 3))
    net[0].weight = weight = Unversioned(torch.randn(8, 8, 3, 3), requires_grad=False)
    with frozen(net):
        copies = copies_of(net)
        first = laid_out(weight, torch.channels_last, copies)
        weight.mul_(2)
        second = laid_out(weight, torch.channels_last, copies)
    assert copies == {}
    assert first.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(second, 2 * first)
