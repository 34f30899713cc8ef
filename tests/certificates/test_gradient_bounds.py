"""Interval bounds of the gradient: by hand, exact for linear networks, and never left by any point of the box."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import holdfast as hf
from holdfast.certificates.gradient_bounds import gradient_bounds
from holdfast.errors import InputError
from holdfast.metrics.top_k import top_k_mask


def network(seed: int, channels: int = 1, side: int = 6) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1, stride=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Sequential(nn.Conv2d(4, 6, 3, padding="same", groups=2), nn.ReLU(), nn.Dropout(0.5)),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    ).double()


def gradient(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(net.eval()(x).gather(1, y[:, None]).sum(), x)[0]


def test_linear_networks_are_exact() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, dilation=2, bias=False), nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(12, 4)
    )
    net = hf.Classifier(net, mean=[0.2, 0.3], std=[0.5, 0.25]).double()
    x, y = torch.rand(3, 2, 6, 6).double(), torch.tensor([0, 1, 3])
    found = gradient_bounds(net, x, y, eps=0.3)
    torch.testing.assert_close(found.lower, gradient(net, x, y))
    torch.testing.assert_close(found.upper, gradient(net, x, y))
    maps = hf.saliency_map(hf.Gradient()(net, x, y))
    assert found.kept(maps, 5).tolist() == [1, 1, 1]
    assert found.ordered_pairs.tolist() == pytest.approx([1, 1, 1], abs=1e-9)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), eps=st.sampled_from([0.0, 0.003, 0.05, 0.4]), channels=st.integers(1, 2))
def test_no_point_of_the_box_leaves_the_bounds(seed: int, eps: float, channels: int) -> None:
    net = network(seed, channels)
    x, y = torch.rand(2, channels, 6, 6).double(), torch.tensor([seed % 3, 1])
    found = gradient_bounds(net, x, y, eps)
    for corner in (False, True, False, True):
        noise = 2 * torch.rand(16, *x.shape).double() - 1
        points = (x + eps * (noise.sign() if corner else noise)).clamp(0, 1).flatten(0, 1)
        here = gradient(net, points, y.repeat(16)).unflatten(0, (16, 2))
        assert bool((here >= found.lower - 1e-12).all())
        assert bool((here <= found.upper + 1e-12).all())
        maps = here.abs().sum(2)
        assert bool((maps >= found.map_lower - 1e-12).all())
        assert bool((maps <= found.map_upper + 1e-12).all())
        clean = gradient(net, x, y).abs().sum(1)
        kept = (top_k_mask(clean, 5) & top_k_mask(maps.flatten(0, 1), 5).unflatten(0, (16, 2))).sum(2) / 5
        assert bool((kept >= found.kept(clean, 5) - 1e-6).all())


def test_smaller_boxes_have_tighter_bounds() -> None:
    net, x, y = network(1), torch.rand(4, 1, 6, 6).double(), torch.tensor([0, 1, 2, 0])
    widths = [float((b.upper - b.lower).sum()) for b in (gradient_bounds(net, x, y, e) for e in (0, 1e-4, 1e-2, 1e-1))]
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(0, abs=1e-12)  # a box of one point
    torch.testing.assert_close(gradient_bounds(net, x, y, 0.0).lower, gradient(net, x, y))


def test_order_of_two_pixels_by_hand() -> None:
    """Logit relu(x1 + 2 x2) + 3 relu(x1 - x2) at (0.5, 0.5), eps 0.25: gradients [1, 4] and [-1, 2]."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    net[1].weight.data, net[1].bias.data = torch.tensor([[1.0, 2.0], [1.0, -1.0]]), torch.zeros(2)
    net[3].weight.data, net[3].bias.data = torch.tensor([[1.0, 3.0]]), torch.zeros(1)
    x, y = torch.tensor([[[[0.5, 0.5]]]]), torch.tensor([0])
    found = gradient_bounds(net, x, y, 0.25)
    assert found.map_lower.flatten().tolist() == [1, 0]
    assert found.map_upper.flatten().tolist() == [4, 2]
    assert not found.outranks(0, 1).item()
    x = torch.tensor([[[[0.9, 0.1]]]])  # both ReLUs stay active: the gradient is (4, -1) everywhere in the box
    found = gradient_bounds(net, x, y, 0.1)
    assert found.outranks(0, 1).item()
    assert not found.outranks(1, 0).item()
    assert found.ordered_pairs.item() == 1


def test_the_box_ends_at_the_pixel_range() -> None:
    """At x = 0 the ReLU of x - 0.1 is inactive up to 0.1 and of -x - 0.01 everywhere in [0, 1]."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    net[1].weight.data, net[1].bias.data = torch.tensor([[-1.0]]), torch.tensor([-0.01])
    found = gradient_bounds(net, torch.zeros(1, 1, 1, 1), torch.tensor([0]), 0.5)
    assert found.lower.item() == found.upper.item() == 0


@pytest.mark.parametrize(
    ("net", "name"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Tanh()), "Tanh"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2, 2)), "MaxPool2d"),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), nn.Flatten()), "Conv2d"),
        (hf.Classifier(hf.models.build("digits-cnn", seed=0)), "DigitsCNN"),
    ],
    ids=["tanh", "max-pool", "reflect", "own class"],
)
def test_other_layers_are_refused_by_name(net: nn.Module, name: str) -> None:
    with pytest.raises(InputError, match=f"got {name}"):
        gradient_bounds(net, torch.rand(1, 1, 4, 4), torch.tensor([0]), 0.1)
