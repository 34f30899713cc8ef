"""Every registered part passes the battery: metrics, maps, losses, attacks, methods."""

import inspect

import pytest
import torch
from tests.conformance.battery import check_attack, check_loss, check_map, check_metric, make_loss
from tests.nets import LinearSoftmax
from torch import nn

import holdfast as hf
from holdfast import losses
from holdfast.attribution import MAPS
from holdfast.losses import Loss
from holdfast.metrics import METRICS
from holdfast.recipes import ATTACKS, KINDS, METHODS, AttackSettings

IG = hf.IntegratedGradients(steps=3)
SMALL = {
    "steps": 3,
    "attribution": IG,
    "k": 5,
    "level": 0.1,
    "scale": 20.0,
    "through_clean": True,
    "target": torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(1)).double(),
}
"""Settings by name: what some losses require, and few points for all."""

NO_EXACT_GRADIENT = {"KendallDrop", "NoDirection", "SoftTopK", "LogTopK", "GradientAlignment"}
"""The first judges iterates and the second is zero everywhere; the others hold a threshold, or the gradient at x, fixed
on purpose. tests/losses/test_recent_losses.py has the gradient of the last by hand."""

HARD_CHOICES = {"SoftTopK", "TopKMass", "TargetMass", "CenterShift", "MapCosine", "FlattenedCosine"}
"""Losses of the map: they take the network itself for the clean map and their own surrogate for the perturbed one."""

LOSSES = [
    kind
    for name in losses.__all__
    if inspect.isclass(kind := getattr(losses, name)) and issubclass(kind, Loss) and not inspect.isabstract(kind)
    if kind not in (losses.Sum, losses.Scaled)
]


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name: str) -> None:
    check_metric(METRICS[name])


@pytest.mark.parametrize("name", MAPS)
def test_maps(name: str) -> None:
    small = {"steps": 3, "samples": 3}
    known = inspect.signature(MAPS[name]).parameters
    options = {key: value for key, value in small.items() if key in known}
    check_map(lambda **more: MAPS[name](**options, **more))


W = torch.tensor([[1.0, -2.0, 0.5, 0.3], [0.2, 1.5, -1.0, 0.7], [-0.8, 0.4, 0.9, -1.1]], dtype=torch.float64)
CLOSED_FORMS = {"ig": lambda x, w: x * w, "gradient": lambda x, w: w, "input-x-gradient": lambda x, w: x * w}
CLOSED_FORMS["smoothgrad"] = CLOSED_FORMS["gradient"]
CLOSED_FORMS["gradcam"] = lambda x, w: (x * w.mean(1, keepdim=True)).clamp(min=0)
CLOSED_FORMS["gradcam++"] = lambda x, w: x * (w.clamp(min=0) / (2 + w * x.sum(1, keepdim=True))).sum(1, keepdim=True)
"""The map of the true logit of a linear network: x * w_y or w_y; the pixels are the features of Grad-CAM."""


@pytest.mark.parametrize("name", MAPS)
def test_maps_have_their_closed_form_on_a_linear_network(name: str) -> None:
    """tests/parity compares them with captum besides."""
    net = nn.Sequential(nn.Identity(), LinearSoftmax(4, 3)).double()
    with torch.no_grad():
        net[1].layer.weight.copy_(W)
    x, y = torch.rand(3, 1, 2, 2).double(), torch.tensor([2, 0, 1])
    found = MAPS[name]()(net, x, y).flatten(1)
    torch.testing.assert_close(found, CLOSED_FORMS[name](x.flatten(1), W[y]).expand(3, 4))


@pytest.mark.parametrize("kind", LOSSES, ids=lambda kind: kind.__name__)
def test_losses(kind: type[Loss]) -> None:
    settings = SMALL | ({"beta": None} if kind.__name__ in HARD_CHOICES else {"beta": 5.0})
    check_loss(make_loss(kind, settings), smooth=kind.__name__ not in NO_EXACT_GRADIENT)


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(name: str) -> None:
    settings = AttackSettings(eps=0.1, steps=4, k=5, ig_steps=3, ensemble={"steps": 2, "ig_steps": 3})
    check_attack(ATTACKS[name](settings))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "target"])
def test_kinds_of_ifia(kind: str) -> None:
    check_attack(hf.recipes.ifia(eps=0.1, step_size=0.04, steps=3, k=5, ig_steps=3, kind=kind, quantize=True))


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_public(name: str) -> None:
    assert getattr(hf.recipes, name) is METHODS[name]
    assert name in hf.recipes.__all__


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    """One step of every method lowers nothing to NaN, reaches all weights, and logs its parts."""
    known = inspect.signature(METHODS[name]).parameters
    offered = {"eps": 0.1, "attack_steps": 2, "step_size": 0.05, "ig_steps": 2, "attack_ig_steps": 2, "k": 5}
    settings = {key: value for key, value in offered.items() if key in known}
    net = hf.models.build("digits-cnn", num_classes=10, seed=0)
    objective = METHODS[name](hf.Classifier(net), **settings)
    data = hf.data.load("digits").subset(range(6))
    output = objective(hf.data.to_float(data.x), data.y, hf.make_keys(0, data.ids))
    output.total.backward()
    assert output.total.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    assert all(value.dim() == 0 and not value.requires_grad for value in output.parts.values())
    assert objective.example_passes > 0
