"""The networks by name: shapes, sizes, wiring, initialisation and seeds."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from holdfast.errors import InputError
from holdfast.models import build, names
from holdfast.models.networks.initialize import he_normal_, truncated_normal_, uniform_unit_scaling_
from holdfast.models.networks.paper_resnet import ResidualUnit, same_conv3x3, shortcut

SMALL = {
    "digits-cnn": ((1, 8, 8), {}),
    "paper-cnn": ((1, 28, 28), {}),
    "paper-resnet": ((3, 32, 32), {"units_per_stage": 1}),
    "wrn-10-1": ((3, 32, 32), {}),
}


def images(*shape, dtype=torch.float32, seed=0):
    return torch.rand(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def size(net):
    return sum(parameter.numel() for parameter in net.parameters())


def same_weights(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_names():
    assert names() == ("digits-cnn", "paper-cnn", "paper-resnet", "wrn-28-10")


@pytest.mark.parametrize("name", SMALL)
def test_logits_and_second_derivatives_at_the_default_size(name):
    shape, options = SMALL[name]
    net = build(name, num_classes=7, seed=0, **options).eval()
    x = images(2, *shape).requires_grad_()
    logits = net(x)
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), x, create_graph=True)
    gradient.square().sum().backward()
    assert logits.shape == (2, 7)
    assert gradient.shape == x.shape
    assert gradient.abs().sum() > 0
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("name", "channels", "sides"),
    [
        ("digits-cnn", 3, (6, 10)),
        ("paper-cnn", 3, (12, 16)),
        ("paper-resnet", 1, (12, 16)),
        ("wrn-10-1", 1, (9, 14)),
    ],
)
def test_other_channels_and_sizes(name, channels, sides):
    net = build(name, num_classes=4, in_channels=channels, image_size=sides, seed=0).eval()
    assert net(images(2, channels, *sides)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        # 1*9*16+16, 16*9*32+32, 32*4*4*48+48, 48*10+10
        ("digits-cnn", {}, 160 + 4640 + 24624 + 490),
        # 1*25*32+32, 32*25*64+64, 64*7*7*1024+1024, 1024*10+10
        ("paper-cnn", {}, 832 + 51264 + 3212288 + 10250),
        # 3*9*16; units 2*9*16^2, 9*16*32+9*32^2, 9*32*64+9*64^2; 64*17+17
        ("paper-resnet", {"units_per_stage": 1, "num_classes": 17}, 432 + 4608 + 13824 + 55296 + 1105),
        # one more unit per stage: 2*9*16^2, 2*9*32^2, 2*9*64^2; 64*43+43
        ("paper-resnet", {"units_per_stage": 2, "num_classes": 43}, 74160 + 4608 + 18432 + 73728 + 2795),
        ("paper-resnet", {}, 74160 + 4 * (4608 + 18432 + 73728) + 650),
        # 3*9*16; blocks 32+2304+32+2304, 32+4608+64+9216+512, 64+18432+128+36864+2048; 128, 64*10+10
        ("wrn-10-1", {}, 432 + 4672 + 14432 + 57536 + 128 + 650),
    ],
)
def test_number_of_parameters(name, options, count):
    assert size(build(name, **options)) == count


def test_wrn_28_10_has_the_published_36_5_million_parameters():
    net = build("wrn-28-10", num_classes=10)
    assert size(net) == 36_479_194
    assert sum(isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3) for m in net.modules()) == 25
    assert {m.p for m in net.modules() if isinstance(m, nn.Dropout)} == {0.1}


def test_layers_of_paper_cnn():
    net = build("paper-cnn", seed=0)
    kinds = [type(m).__name__ for m in (*net.features, *net.head)]
    assert kinds == [
        *("Conv2d", "MaxPool2d", "ReLU", "Conv2d", "MaxPool2d", "ReLU"),
        *("Flatten", "Linear", "ReLU", "Linear"),
    ]


def test_truncated_normal_has_the_moments_of_a_normal_cut_at_two_deviations():
    torch.manual_seed(0)
    weight = truncated_normal_(torch.empty(400, 500), std=0.1)
    cut = math.exp(-2) / math.sqrt(2 * math.pi)  # density at 2
    deviation = 0.1 * math.sqrt(1 - 4 * cut / math.erf(math.sqrt(2)))
    assert deviation == pytest.approx(0.08796, abs=1e-5)
    assert weight.std().item() == pytest.approx(deviation, rel=0.01)
    assert weight.mean().item() == pytest.approx(0, abs=1e-3)
    assert 0.199 < weight.abs().max().item() <= 0.2


def test_he_normal_and_uniform_unit_scaling():
    torch.manual_seed(0)
    kernel = he_normal_(torch.empty(64, 100, 3, 3))
    matrix = uniform_unit_scaling_(torch.empty(500, 48))
    assert kernel.std().item() == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.02)
    assert 0.249 < matrix.abs().max().item() <= 0.25  # sqrt(3 / 48)
    assert matrix.std().item() == pytest.approx(0.25 / math.sqrt(3), rel=0.02)


def test_initialisation_of_paper_cnn():
    for name, parameter in build("paper-cnn", seed=0).named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0.1).all()
        else:
            assert parameter.abs().max() <= 0.2
            assert parameter.std().item() == pytest.approx(0.08796, rel=0.06)


def test_torch_initialisation_of_paper_cnn():
    net = build("paper-cnn", init="torch", seed=0)
    assert net.features[0].weight.abs().max() <= 1 / math.sqrt(25)
    assert net.head[1].weight.abs().max() <= 1 / math.sqrt(3136)
    assert not (net.head[1].bias == 0.1).any()


def test_initialisation_of_paper_resnet():
    net = build("paper-resnet", num_classes=43, seed=0)
    kernels = [m.weight for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert len(kernels) == 31
    for kernel in kernels:
        assert kernel.std().item() == pytest.approx(math.sqrt(2 / (9 * kernel.shape[0])), rel=0.12)
    assert (net.head.bias == 0).all()
    assert 0.99 < net.head.weight.abs().max().item() / math.sqrt(3 / 64) <= 1
    assert not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())


def test_initialisation_of_wide_resnet():
    net = build("wrn-16-2", seed=0)
    assert net.blocks[-1].conv2.weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 128)), rel=0.02)
    assert net.blocks[-2].projection.weight.std().item() == pytest.approx(math.sqrt(2 / 128), rel=0.03)
    assert (net.head.bias == 0).all()
    assert (net.norm.weight == 1).all()


def test_strided_same_padding_by_hand():
    conv = same_conv3x3(1, 1, stride=2)
    for kernel in conv.parameters():
        nn.init.ones_(kernel)
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    # the windows start at 0 and 2; the second one hangs over the far edge by one
    assert conv(x).flatten().tolist() == [
        0 + 1 + 2 + 4 + 5 + 6 + 8 + 9 + 10,
        2 + 3 + 6 + 7 + 10 + 11,
        8 + 9 + 10 + 12 + 13 + 14,
        10 + 11 + 14 + 15,
    ]


def test_unstrided_same_padding_by_hand():
    conv = same_conv3x3(1, 1)
    nn.init.ones_(conv.weight)
    assert conv(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).flatten().tolist() == [10.0] * 4


def test_shortcut_by_hand():
    x = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]], [[0.0, 0.0], [2.0, 2.0]]]])  # [1, 2, 2, 2], means 4 and 1
    assert shortcut(x, channels=4, stride=2).flatten().tolist() == [0.0, 4.0, 1.0, 0.0]
    assert shortcut(x, channels=2, stride=1) is x


@pytest.mark.parametrize(("shared", "wanted"), [(True, [-0.1, 2.0]), (False, [-1.0, 2.0])])
def test_shared_activation_comes_before_the_split(shared, wanted):
    unit = ResidualUnit(1, 1, shared=shared)
    nn.init.zeros_(unit.conv2.weight)
    torch.testing.assert_close(unit(torch.tensor([-1.0, 2.0]).reshape(1, 1, 1, 2)).flatten(), torch.tensor(wanted))


def test_residual_branch_by_hand():
    unit = ResidualUnit(1, 1)
    for conv, centre in ((unit.conv1, -3.0), (unit.conv2, 5.0)):
        nn.init.zeros_(conv.weight)
        conv.weight.data[0, 0, 1, 1] = centre
    # 2 -> act 2 -> -6 -> act -0.6 -> -3, and 2 - 3; -1 -> act -0.1 -> 0.3 -> act 0.3 -> 1.5, and -1 + 1.5
    out = unit(torch.tensor([2.0, -1.0]).reshape(1, 1, 1, 2)).flatten()
    torch.testing.assert_close(out, torch.tensor([-1.0, 0.5]))


def test_wiring_of_paper_resnet_with_silent_residual_branches():
    net = build("paper-resnet", units_per_stage=2, seed=0)
    for unit in net.units:
        nn.init.zeros_(unit.conv2.weight)
    x = images(2, 3, 8, 8)
    flat = x.flatten(1)
    standard = (flat - flat.mean(1, keepdim=True)) / flat.std(1, correction=0, keepdim=True)
    stem = F.conv2d(standard.view_as(x), net.stem.weight, padding=1)
    pooled = F.avg_pool2d(F.leaky_relu(stem, 0.1), 4)  # two shortcuts of stride 2
    features = F.pad(F.leaky_relu(pooled, 0.1).mean((2, 3)), (24, 24))  # 8 + 16 channels of zeros on each side
    torch.testing.assert_close(net(x), features @ net.head.weight.T)


def test_only_the_first_unit_shares_its_activation():
    units = build("paper-resnet", units_per_stage=2).units
    assert [unit.shared for unit in units] == [True, False, False, False, False, False]
    assert [unit.stride for unit in units] == [1, 1, 2, 1, 2, 1]
    assert [unit.channels for unit in units] == [16, 16, 32, 32, 64, 64]
    assert len(build("paper-resnet").units) == 15


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.7, 50.0])
def test_paper_resnet_is_scale_invariant(scale):
    net = build("paper-resnet", units_per_stage=2, seed=0).double()
    x = images(2, 3, 16, 16, dtype=torch.float64)
    assert net.scale_invariant
    torch.testing.assert_close(net(scale * x), net(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_paper_resnet_is_twice_differentiable_on_constant_images(value):
    net = build("paper-resnet", units_per_stage=1, seed=0)
    x = torch.full((1, 3, 8, 8), value, requires_grad=True)
    logits = net(x)
    (first,) = torch.autograd.grad(logits[:, 0].sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert logits.isfinite().all()
    assert first.isfinite().all()
    assert second.isfinite().all()


def test_dropout_of_wide_resnet_is_silent_in_evaluation():
    net = build("wrn-10-1", dropout=0.5, seed=0)
    x = images(2, 3, 8, 8)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


@pytest.mark.parametrize("name", SMALL)
def test_seed_alone_decides_the_weights(name):
    _, options = SMALL[name]
    torch.manual_seed(1)
    first = build(name, seed=5, **options)
    torch.manual_seed(2)
    assert same_weights(first, build(name, seed=5, **options))
    assert not same_weights(first, build(name, seed=6, **options))


def test_seed_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    build("paper-resnet", seed=5, units_per_stage=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_the_global_random_state_decides():
    torch.manual_seed(1)
    first, second = build("digits-cnn"), build("digits-cnn")
    torch.manual_seed(1)
    assert same_weights(first, build("digits-cnn"))
    assert not same_weights(first, second)


def test_default_device_does_not_matter():
    with torch.device("meta"):
        net = build("digits-cnn", seed=0)
    assert same_weights(net, build("digits-cnn", seed=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"name": "paper-cn"}, "got 'paper-cn'; the nearest name is 'paper-cnn'"),
        ({"name": "wrn-28"}, "the nearest name is 'wrn-28-10'"),
        ({"name": "paper-cnn", "num_clases": 3}, "got 'num_clases'; the nearest name is 'num_classes'"),
        ({"name": "paper-resnet", "unit_per_stage": 3}, "the nearest name is 'units_per_stage'"),
        ({"name": "wrn-28-10", "depth": 10}, "an option of wrn-28-10 among .*dropout, got 'depth'"),
        ({"name": "digits-cnn", "init": "torch"}, "an option of digits-cnn among"),
        ({"name": "paper-cnn", "image_size": 30}, "image sides divisible by 4 for paper-cnn, got 30"),
        ({"name": "paper-resnet", "image_size": (32, 30)}, r"image sides divisible by 4 .* got \(32, 30\)"),
        ({"name": "digits-cnn", "image_size": 7}, "image sides divisible by 2"),
        ({"name": "paper-cnn", "image_size": (28, 28, 1)}, r"\(height, width\)"),
        ({"name": "paper-cnn", "image_size": 0}, "image_size >= 1, got 0"),
        ({"name": "paper-cnn", "image_size": 28.0}, "image_size to be a whole number, got 28.0"),
        ({"name": "paper-cnn", "in_channels": 0}, "in_channels >= 1, got 0"),
        ({"name": "paper-cnn", "num_classes": 1}, "num_classes >= 2, got 1"),
        ({"name": "paper-cnn", "num_classes": "10"}, "num_classes to be a whole number, got '10'"),
        ({"name": "paper-cnn", "seed": 0.5}, "seed to be a whole number, got 0.5"),
        ({"name": "paper-cnn", "init": "zeros"}, "init to be one of paper, torch, got 'zeros'"),
        ({"name": "paper-resnet", "units_per_stage": 0}, "units_per_stage >= 1, got 0"),
        ({"name": "wrn-27-10"}, "a depth of 6n \\+ 4 .* got 27"),
        ({"name": "wrn-4-10"}, "a depth of 6n \\+ 4 .* got 4"),
        ({"name": "wrn-10-0"}, "width >= 1, got 0"),
        ({"name": "wrn-10-1", "dropout": 1.0}, r"dropout in \[0, 1\), got 1.0"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        build(**call)


def test_paper_resnet_refuses_images_it_cannot_halve_twice():
    with pytest.raises(InputError, match=r"sides divisible by 4, got \[1, 3, 8, 6\]"):
        build("paper-resnet", units_per_stage=1, seed=0)(images(1, 3, 8, 6))
