"""The exact-value surrogate: exact values, smoothed derivatives, and a map that can be differentiated."""

import pytest
import torch
import torch.nn.functional as F
from tests.oracles import tiny_images, tiny_net
from torch import nn

import holdfast as hf
from holdfast.models import exact_value
from holdfast.models.exact_value import exact_value_surrogate

LAYERS = {
    "relu": nn.ReLU(),
    "in-place relu": nn.ReLU(inplace=True),
    "leaky relu": nn.LeakyReLU(0.2),
    "prelu": nn.PReLU(3),
    "relu6": nn.ReLU6(),
    "hard tanh": nn.Hardtanh(-0.5, 0.7),
    "max-pool": nn.MaxPool2d(2),
    "overlapping max-pool": nn.MaxPool2d(3, stride=2, padding=1),
    "dilated max-pool": nn.MaxPool2d(2, stride=1, dilation=2),
    "oblong max-pool": nn.MaxPool2d((3, 2)),
}


def images(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", LAYERS)
def test_values_are_exact(name: str) -> None:
    layer, x = LAYERS[name].double(), images()
    with exact_value_surrogate(0.3) as surrogate:
        found = layer(x.clone())
    assert surrogate.swapped == 1
    torch.testing.assert_close(found, layer(x.clone()), rtol=0, atol=1e-12)


def test_derivative_of_relu_by_hand() -> None:
    x = torch.tensor([[-1.0, 3.0]], dtype=torch.float64, requires_grad=True)  # standard deviation 2
    with exact_value_surrogate(0.25):
        (slope,) = torch.autograd.grad(F.leaky_relu(x, 0.1).sum(), x)
    gate = torch.sigmoid(torch.tensor([-2.0, 6.0], dtype=torch.float64))
    torch.testing.assert_close(slope[0], 0.1 + 0.9 * gate)


@pytest.mark.parametrize("options", [(2, 2, 0), (3, 2, 1), (2, 1, 0)])
def test_derivative_of_max_pooling_is_a_softmax(options: tuple[int, int, int]) -> None:
    kernel, stride, padding = options
    x = images(1)[:1, :1, :6, :6].clone().requires_grad_()
    width = 0.5 * float(x.detach().std(correction=0))
    with exact_value_surrogate(0.5):
        pooled = F.max_pool2d(x, kernel, stride, padding)
        (slope,) = torch.autograd.grad(pooled.sum(), x)
    expected = torch.zeros_like(x)
    for top in range(-padding, 6 + padding - kernel + 1, stride):
        for left in range(-padding, 6 + padding - kernel + 1, stride):
            rows = [r for r in range(top, top + kernel) if 0 <= r < 6]
            columns = [c for c in range(left, left + kernel) if 0 <= c < 6]
            window = x.detach()[0, 0, rows][:, columns]
            share = (window / width).flatten().softmax(0).reshape(window.shape)
            expected[0, 0, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] += share
    torch.testing.assert_close(slope, expected)


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.LeakyReLU(0.1), nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1)])
def test_derivative_of_the_smoothed_gradient(layer: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one smoothed layer and a fixed width, it agrees with finite differences of the smoothed gradient."""
    monkeypatch.setattr(exact_value, "_width", lambda z, fraction: torch.full((1, 1, 1, 1), 0.4, dtype=z.dtype))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), layer, nn.Flatten(), nn.LazyLinear(2)).double()
    x, weights, direction = (images(seed)[:1, :1] for seed in (2, 3, 4))
    net(x)

    def smoothed_gradient(image: torch.Tensor) -> torch.Tensor:
        with exact_value_surrogate(0.4):
            (gradient,) = torch.autograd.grad(net(image)[:, 0].sum(), image, create_graph=True)
        return gradient

    image = x.clone().requires_grad_()
    (found,) = torch.autograd.grad((smoothed_gradient(image) * weights).sum(), image)
    step = 1e-6
    ends = [smoothed_gradient((x + sign * step * direction).requires_grad_()).detach() for sign in (1, -1)]
    slope = ((ends[0] - ends[1]) * weights).sum() / (2 * step)
    torch.testing.assert_close((found * direction).sum(), slope, rtol=1e-5, atol=1e-8)


def test_fast_kernels_leave_pooling_to_the_surrogate() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 3))
    x = torch.rand(2, 1, 8, 8)
    with exact_value_surrogate(0.5) as surrogate:
        hf.attribution.Gradient()(net, x, torch.tensor([0, 1]), create_graph=True)
    assert surrogate.swapped == 2


def test_maps_converge_to_those_of_the_network() -> None:
    net, x = tiny_net(), tiny_images(3)
    y = torch.arange(3)
    ig = hf.IntegratedGradients(steps=4)
    exact = ig(net, x, y)
    gaps = []
    for width in (0.5, 0.05, 1e-4):
        with exact_value_surrogate(width):
            gaps.append(float((ig(net, x, y) - exact).abs().mean()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3 * float(exact.abs().mean()) + 1e-6


def test_each_example_has_its_own_width() -> None:
    x = images(5)
    with exact_value_surrogate(0.5):
        together = F.relu(x.requires_grad_())
        (both,) = torch.autograd.grad(together.sum(), x)
        alone = x.detach()[:1].requires_grad_()
        (one,) = torch.autograd.grad(F.relu(alone).sum(), alone)
    torch.testing.assert_close(both[:1], one)


def test_refuses_width_zero() -> None:
    with pytest.raises(hf.InputError, match="width > 0"):
        exact_value_surrogate(0.0)
