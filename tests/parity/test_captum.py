"""Integrated gradients and the gradient family equal captum's on the networks of the package."""

import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients, Saliency

import holdfast as hf

NETWORKS = [
    ("paper-cnn", (1, 28, 28), {}),
    ("paper-resnet", (3, 32, 32), {"units_per_stage": 1}),
    ("wrn-10-2", (3, 32, 32), {}),
    ("digits-cnn", (1, 8, 8), {}),
]
RULES = {
    "right": "riemann_right",
    "left": "riemann_left",
    "midpoint": "riemann_middle",
    "gauss-legendre": "gausslegendre",
}


def network(name: str, shape: tuple[int, int, int], options: dict) -> tuple:
    """In double precision: in single, pixels of a pooling window that are equal up to rounding change places."""
    net = hf.models.build(name, num_classes=7, in_channels=shape[0], image_size=shape[1], seed=1, **options).eval()
    generator = torch.Generator().manual_seed(2)
    return hf.Classifier(net).double(), torch.rand(3, *shape, generator=generator).double(), torch.tensor([0, 6, 3])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("name", "shape", "options"), NETWORKS, ids=[n for n, *_ in NETWORKS])
def test_integrated_gradients(name: str, shape: tuple, options: dict, rule: str) -> None:
    model, x, y = network(name, shape, options)
    theirs = IntegratedGradients(model).attribute(x, target=y, n_steps=20, method=RULES[rule])
    ours = hf.IntegratedGradients(steps=20, rule=rule)(model, x, y)
    assert float((ours - theirs).abs().max() / theirs.abs().max()) < 1e-5


@pytest.mark.parametrize("name", ["paper-resnet", "wrn-28-10"])
def test_networks_at_their_full_size(name: str) -> None:
    model, x, y = network(name, (3, 32, 32), {})
    theirs = IntegratedGradients(model).attribute(x[:1], target=y[:1], n_steps=4, method="riemann_right")
    ours = hf.IntegratedGradients(steps=4)(model, x[:1], y[:1])
    assert float((ours - theirs).abs().max() / theirs.abs().max()) < 1e-5


@pytest.mark.parametrize(("name", "shape", "options"), NETWORKS, ids=[n for n, *_ in NETWORKS])
def test_gradient_family(name: str, shape: tuple, options: dict) -> None:
    model, x, y = network(name, shape, options)
    theirs = Saliency(model).attribute(x.clone().requires_grad_(), target=y, abs=False)
    torch.testing.assert_close(hf.Gradient()(model, x, y), theirs, rtol=1e-5, atol=1e-7)
    theirs = InputXGradient(model).attribute(x.clone().requires_grad_(), target=y)
    torch.testing.assert_close(hf.InputXGradient()(model, x, y), theirs, rtol=1e-5, atol=1e-7)


def test_baseline_and_completeness_gap() -> None:
    model, x, y = network("digits-cnn", (1, 8, 8), {})
    theirs, delta = IntegratedGradients(model).attribute(
        x, baselines=0.3, target=y, n_steps=10, method="riemann_right", return_convergence_delta=True
    )
    ig = hf.IntegratedGradients(steps=10, baseline=0.3)
    torch.testing.assert_close(ig(model, x, y), theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ig.completeness_gap(model, x, y), delta.to(x.dtype), rtol=1e-4, atol=1e-5)
