"""Scale-invariant networks: one gradient gives the m-step integrated gradients, and its derivative, exactly."""

import pytest
import torch
from torch import Tensor

import holdfast as hf
from holdfast.errors import InputError

X = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0)).double()
Y = torch.tensor([0, 4, 2])


@pytest.fixture
def resnet() -> torch.nn.Module:
    return hf.models.build("paper-resnet", num_classes=5, units_per_stage=1, seed=0).double()


def counted(model: torch.nn.Module, declared: bool | None) -> tuple:
    """The network as a stranger's: no declaration unless given, and a count of the images it was shown."""

    class Wrapped:
        images = 0

        def __call__(self, x: Tensor) -> Tensor:
            Wrapped.images += len(x)
            return model(x)

    if declared is not None:
        Wrapped.scale_invariant = declared
    return Wrapped(), Wrapped


@pytest.mark.parametrize("rule", ["right", "midpoint", "gauss-legendre"])
@pytest.mark.parametrize("steps", [1, 5, 50])
def test_shortcut_equals_the_long_way(resnet: torch.nn.Module, rule: str, steps: int) -> None:
    short, long = (
        hf.IntegratedGradients(steps=steps, rule=rule, shortcut=s)(resnet, X, Y, create_graph=False)
        for s in (None, False)
    )
    assert float((short - long).abs().max() / long.abs().max()) < 1e-5


def test_harmonic_factor(resnet: torch.nn.Module) -> None:
    ig = hf.IntegratedGradients(steps=3)(resnet, X, Y)
    torch.testing.assert_close(ig, (1 + 1 / 2 + 1 / 3) * hf.InputXGradient()(resnet, X, Y))


def test_derivatives_agree_too(resnet: torch.nn.Module) -> None:
    def slope(shortcut: bool) -> Tensor:
        x = X.clone().requires_grad_()
        with hf.softplus_surrogate():
            ig = hf.IntegratedGradients(steps=4, shortcut=shortcut)(resnet, x, Y, create_graph=True)
            return torch.autograd.grad(hf.saliency_map(ig).square().sum(), x)[0]

    short, long = slope(True), slope(False)
    assert float((short - long).abs().max() / long.abs().max()) < 1e-5


def test_used_when_declared_or_shown_and_only_then(resnet: torch.nn.Module) -> None:
    ig = hf.IntegratedGradients(steps=50)
    for declared, at_most in ((True, len(X)), (None, 10 * len(X) + 5)):
        model, count = counted(resnet, declared)
        ig(model, X, Y)
        assert count.images <= at_most
    model, count = counted(resnet, False)
    ig(model, X, Y)
    assert count.images == 50 * len(X)
    ordinary, count = counted(hf.models.build("wrn-10-1", num_classes=5, seed=0).double().eval(), None)
    ig(ordinary, X, Y)
    assert 50 * len(X) <= count.images <= 50 * len(X) + 6


def test_switch_forces_the_long_way(resnet: torch.nn.Module) -> None:
    model, count = counted(resnet, True)
    hf.IntegratedGradients(steps=7, shortcut=False)(model, X, Y)
    assert count.images == 7 * len(X)


def test_not_for_other_baselines_or_rules_with_a_point_at_zero(resnet: torch.nn.Module) -> None:
    for options in ({"baseline": 0.5}, {"rule": "left"}, {"rule": "trapezoid"}):
        model, count = counted(resnet, True)
        hf.IntegratedGradients(steps=7, **options)(model, X, Y)
        assert count.images == 7 * len(X)
        with pytest.raises(InputError, match="shortcut"):
            hf.IntegratedGradients(shortcut=True, **options)


def test_completeness_fails_by_construction(resnet: torch.nn.Module) -> None:
    # Euler: <x, grad f(x)> = 0 for f(a x) = f(x), so the map sums to zero whatever f does
    ig = hf.IntegratedGradients(steps=10)
    assert ig(resnet, X, Y).flatten(1).sum(1).abs().max() < 1e-9
    assert ig.completeness_gap(resnet, X, Y).abs().min() > 1e-6


def test_decided_for_each_image_by_itself(resnet: torch.nn.Module) -> None:
    # an image of almost no contrast meets the floor of the standardisation when darkened: the long way for it alone
    mixed = X.clone()
    mixed[1] = 0.5 + 1e-4 * X[1]
    model, _ = counted(resnet, None)
    ig = hf.IntegratedGradients(steps=20)
    whole = ig(model, mixed, Y)
    for i in range(3):
        torch.testing.assert_close(whole[i : i + 1], ig(model, mixed[i : i + 1], Y[i : i + 1]), rtol=1e-12, atol=1e-14)
    exact = hf.IntegratedGradients(steps=20, shortcut=False)(resnet, mixed, Y)
    assert float((whole - exact).abs().max() / exact.abs().max()) < 1e-5


def test_black_images_are_no_evidence(resnet: torch.nn.Module) -> None:
    model, _ = counted(resnet, None)
    result = hf.IntegratedGradients(steps=3)(model, torch.zeros_like(X), Y)
    assert not result.any()
