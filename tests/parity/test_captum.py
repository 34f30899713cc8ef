"""Integrated gradients, the gradient family and max-sensitivity equal captum's on the networks of the package."""

import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients, Saliency
from captum.metrics import sensitivity_max

import holdfast as hf
from holdfast.evaluation.stability import random_stability
from holdfast.rng import combine

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


@pytest.mark.parametrize(("name", "shape", "options"), NETWORKS[-1:], ids=[n for n, *_ in NETWORKS[-1:]])
def test_max_sensitivity(name: str, shape: tuple, options: dict) -> None:
    model, x, y = network(name, shape, options)
    x, keys, ball, ig = 0.1 + 0.8 * x, hf.make_keys(0, torch.arange(3)), hf.Linf(0.02), hf.IntegratedGradients(steps=4)
    near = [ball.sample(combine(keys, number), x) for number in range(5)]

    def explain(images, target: torch.Tensor):
        """Like captum's attributions: a tensor for a tensor, a tuple for a tuple."""
        if isinstance(images, tuple):
            return (ig(model, *images, target),)
        return ig(model, images, target)

    theirs = sensitivity_max(
        explain,
        x,
        perturb_func=lambda images: torch.stack(near, dim=1).flatten(0, 1),  # captum repeats each image five times
        n_perturb_samples=5,
        target=y,
    )
    ours = random_stability(model, x, y, ig, keys=keys, ball=ball, samples=5).max_sensitivity
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
