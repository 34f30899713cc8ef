"""ReLUs with smooth derivatives: values and derivatives against the plain formula and against finite differences."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import holdfast as hf
from holdfast.engine.smooth_kinks import deviations, exact_relu, smooth_slope, softplus_relu

FORMS = {
    "softplus": lambda z, leak, inplace: softplus_relu(z, 3.0, leak, inplace=inplace),
    "exact": lambda z, leak, inplace: exact_relu(z, torch.tensor([[2.0], [5.0]]).to(z), leak, inplace=inplace),
}


def inputs() -> Tensor:
    return torch.randn(2, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def derivatives(form, leak: float, inplace: bool, order: int) -> list[Tensor]:
    """Value and derivatives of a function of the activation and of its gradients."""
    z = inputs().requires_grad_()
    found = [form(z * 1, leak, inplace).pow(2).sum()]
    for _ in range(order):
        (slope,) = torch.autograd.grad(found[-1], z, create_graph=True)
        found.append((slope * z.sin()).pow(2).sum())
    return [value.detach() for value in found]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("inplace", [False, True])
def test_derivatives_to_the_third_order_are_those_of_the_formula(name: str, leak: float, inplace: bool) -> None:
    fast = derivatives(FORMS[name], leak, inplace, order=3)
    with hf.plain_kernels():
        formula = derivatives(FORMS[name], leak, inplace, order=3)
    torch.testing.assert_close(fast, formula)


@pytest.mark.parametrize("leak", [0.0, 0.2])
def test_gradcheck(leak: float) -> None:
    z, dy = inputs().requires_grad_(), inputs().cos().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: softplus_relu(z, 2.0, leak), z)
    assert torch.autograd.gradgradcheck(lambda z: softplus_relu(z, 2.0, leak), z)
    assert torch.autograd.gradcheck(lambda dy, z: smooth_slope(dy, z, 2.0, leak), (dy, z))
    assert torch.autograd.gradgradcheck(lambda dy, z: smooth_slope(dy, z, 2.0, leak), (dy, z))


def test_second_derivative_by_hand() -> None:
    """At z = 0 the gate is 1/2: the slope is a + (1 - a) / 2, and its derivative (1 - a) c / 4."""
    z = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(exact_relu(z, 8.0, leak=0.5), z, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, z)
    assert (slope.item(), curvature.item()) == (0.75, 1.0)


def test_values() -> None:
    z = inputs()
    torch.testing.assert_close(exact_relu(z, 7.0), F.relu(z))
    torch.testing.assert_close(exact_relu(z, 7.0, leak=0.3), F.leaky_relu(z, 0.3))
    torch.testing.assert_close(exact_relu(z, 7.0, leak=torch.tensor(0.3).to(z)), F.leaky_relu(z, 0.3))
    torch.testing.assert_close(softplus_relu(z, 7.0, leak=0.3), 0.3 * z + 0.7 * F.softplus(z, 7.0))


@pytest.mark.parametrize("name", FORMS)
def test_in_place_overwrites_and_mixed_layouts_are_equal(name: str) -> None:
    z = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(1))
    work = z.clone()
    sharp = torch.tensor([2.0, 5.0]).reshape(2, 1, 1, 1)
    form = {
        "softplus": lambda z, i: softplus_relu(z, 2.0, inplace=i),
        "exact": lambda z, i: exact_relu(z, sharp, inplace=i),
    }
    assert form[name](work, True) is work
    torch.testing.assert_close(work, form[name](z, False))
    results = []
    for memory in (torch.contiguous_format, torch.channels_last):
        image = z.to(memory_format=memory, copy=True).requires_grad_()
        (slope,) = torch.autograd.grad((form[name](image, False) * z).sum(), image, create_graph=True)
        results.append(torch.autograd.grad((slope * z.cos()).sum(), image)[0])
    torch.testing.assert_close(*results)


@settings(max_examples=40, deadline=None)
@given(
    shift=st.sampled_from([0.0, 1.0, -30.0, 1e4]), spread=st.floats(0, 5), last=st.booleans(), seed=st.integers(0, 99)
)
def test_deviations_also_where_the_mean_is_large(shift: float, spread: float, last: bool, seed: int) -> None:
    z = shift + spread * torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    z[0] = shift  # constant
    z = z.to(memory_format=torch.channels_last if last else torch.contiguous_format)
    torch.testing.assert_close(deviations(z), z.flatten(1).std(1, correction=0), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(deviations(z[1:2]), deviations(z)[1:2], rtol=1e-12, atol=0)
