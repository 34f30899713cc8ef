"""The fast_kernels convolutions and poolings against PyTorch's own: values and derivatives to the second order."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import holdfast as hf
from holdfast.engine import convolution
from holdfast.engine.cpu_kernels import fast_kernels, fast_kernels_for
from holdfast.engine.modes import frozen
from holdfast.engine.straight_path import StraightPath


def twice(x: Tensor, w: Tensor, b: Tensor, **steps: int) -> list[Tensor]:
    """Value, gradients in image, weight and bias, and the derivatives of a function of those gradients."""
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    y = F.conv2d(*leaves, **steps)
    first = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
    second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), leaves)
    return [y.detach(), *(g.detach() for g in first), *second]


@settings(max_examples=40, deadline=None)
@given(
    channels=st.sampled_from([1, 2, 3, 6, 8]),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    grouped=st.booleans(),
    seed=st.integers(0, 99),
)
def test_convolution_equals_the_library_in_value_gradient_and_second_derivative(
    channels: int, kernel: int, stride: int, padding: int, dilation: int, grouped: bool, seed: int
) -> None:
    make = torch.Generator().manual_seed(seed)
    groups = channels if grouped else 1
    x = torch.randn(2, channels, 9, 8, generator=make, dtype=torch.float64)
    w = torch.randn(2 * groups, channels // groups, kernel, kernel, generator=make, dtype=torch.float64)
    b = torch.randn(len(w), generator=make, dtype=torch.float64)
    steps = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    expected = twice(x, w, b, **steps)
    with fast_kernels():
        found = twice(x, w, b, **steps)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    channels=st.sampled_from([1, 2, 3, 4, 6]),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    padding=st.integers(0, 2),
    sides=st.sampled_from([(8, 8), (6, 10), (7, 8)]),
    weights=st.booleans(),
    twice_=st.booleans(),
)
def test_convolution_in_channels_last_equals_the_library(
    channels: int, kernel: tuple[int, int], padding: int, sides: tuple[int, int], weights: bool, twice_: bool
) -> None:
    """With two to four colours the gradient in the image is computed in blocks of pixels."""
    make = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, *sides, generator=make, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, channels, *kernel, generator=make, dtype=torch.float64, requires_grad=weights)
    wanted, results = [x, w] if weights else [x], []
    for mode in (nullcontext(), fast_kernels(layout=torch.channels_last, twice=twice_)):
        with mode:
            y = F.conv2d(x, w, padding=padding)
        first = torch.autograd.grad(y.pow(3).sum(), wanted, create_graph=True)
        second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), wanted)
        results.append((y, *first, *second))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("channels", [1, 5])
def test_gradients_of_gradients_pass_gradcheck(channels: int) -> None:
    make = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, 5, 5, generator=make, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, channels, 3, 3, generator=make, dtype=torch.float64, requires_grad=True)
    with fast_kernels():
        assert torch.autograd.gradcheck(lambda x, w: F.conv2d(x, w, padding=1), (x, w))
        assert torch.autograd.gradgradcheck(lambda x, w: F.conv2d(x, w, padding=1), (x, w))


def along_a_line(start: Tensor, way: Tensor, w: Tensor, b: Tensor, *, lean_way: bool) -> list[Tensor]:
    """The same of a convolution of all points of a line, in start, way, weight and bias."""
    leaves = [t.clone().requires_grad_() for t in (start, way, w, b)]
    line = StraightPath(leaves[0], leaves[1], torch.tensor([0.25, 0.5, 1.0], dtype=start.dtype))
    images = line.points().flatten(0, 1)
    with fast_kernels_for(len, images, path=line if lean_way else None):
        y = F.conv2d(images, leaves[2], leaves[3], padding=1)
    first = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
    second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), leaves)
    return [y.detach(), *(g.detach() for g in first), *second]


@pytest.mark.parametrize("channels", [1, 5])
def test_points_of_a_line_are_convolved_together(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make = torch.Generator().manual_seed(0)
    shapes = ((2, channels, 5, 5), (2, channels, 5, 5), (3, channels, 3, 3), (3,))
    leaves = [torch.randn(shape, generator=make, dtype=torch.float64) for shape in shapes]
    one_by_one = along_a_line(*leaves, lean_way=False)
    sizes = []
    convolve = convolution._convolve
    monkeypatch.setattr(convolution, "_convolve", lambda x, *rest: sizes.append(len(x)) or convolve(x, *rest))
    for ours, theirs in zip(along_a_line(*leaves, lean_way=True), one_by_one, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert set(sizes) == {2}  # never the six points


def test_only_the_images_themselves_are_taken_for_points_of_the_line() -> None:
    x, w = torch.rand(2, 1, 5, 5), torch.rand(3, 1, 3, 3)
    line = StraightPath(x, x, torch.tensor([0.5, 1.0]))
    images = line.points().flatten(0, 1)
    with fast_kernels_for(len, images, path=line):
        found = F.conv2d(images * 2, w)
    torch.testing.assert_close(found, F.conv2d(images * 2, w))


@settings(max_examples=30, deadline=None)
@given(
    channels=st.integers(1, 4),
    side=st.integers(2, 7),
    window=st.integers(1, 3),
    extra=st.integers(0, 1),
    ties=st.booleans(),
)
def test_pooling_picks_the_same_pixels_also_among_ties(
    channels: int, side: int, window: int, extra: int, ties: bool
) -> None:
    window = min(window, side)
    x = torch.randn(2, channels, side, side, generator=torch.Generator().manual_seed(side), dtype=torch.float64)
    x = x.round() if ties else x

    def looked_at() -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        y = F.max_pool2d(leaf, window, window + extra)
        (first,) = torch.autograd.grad(y.pow(3).sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), leaf)
        return [y.detach(), first.detach(), second]

    expected = looked_at()
    with fast_kernels():
        found = looked_at()
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


def test_what_is_not_covered_goes_to_the_library_unchanged() -> None:
    x, w = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    with fast_kernels():
        same, single = F.conv2d(x, w, padding="same"), F.conv2d(x[0], w)
        overlapping = F.max_pool2d(x, 3, 1)
        values, index = F.max_pool2d(x, 2, return_indices=True)
    assert torch.equal(same, F.conv2d(x, w, padding="same"))
    assert torch.equal(single, F.conv2d(x[0], w))
    assert torch.equal(overlapping, F.max_pool2d(x, 3, 1))
    assert index.dtype == torch.int64
    assert torch.equal(values, F.max_pool2d(x, 2))


def test_no_gradient_of_the_weights_is_computed_on_the_way_to_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = convolution._correlate
    monkeypatch.setattr(convolution, "_correlate", lambda *args: (asked.append("weights"), plain(*args))[1])
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Softplus(), nn.Conv2d(4, 5, 3), nn.Softplus(), nn.Flatten(), nn.Linear(80, 3)
    )
    x, y = torch.rand(2, 1, 8, 8), torch.tensor([0, 1])
    attack = hf.PGD(hf.losses.IGNorm(steps=2), ball=hf.Linf(0.1), steps=2, step_size=0.1)
    attack(net, x, y, keys=hf.make_keys(0, torch.arange(2)))
    hf.IntegratedGradients(steps=2)(net, x, y)
    assert asked == []
    loss = hf.losses.IGNorm(steps=2)(net, hf.Pair(x, x + 0.1, y)).sum()
    loss.backward()  # training does ask
    assert asked
    assert all(p.requires_grad for p in net.parameters())


def test_frozen_gives_every_parameter_its_own_state_back() -> None:
    net = nn.Linear(2, 2)
    net.bias.requires_grad_(False)
    with frozen(net):
        assert not any(p.requires_grad for p in net.parameters())
    assert net.weight.requires_grad
    assert not net.bias.requires_grad
