"""Grad-CAM equals captum's, and Grad-CAM and Grad-CAM++ equal pytorch-grad-cam's where that package imports."""

import warnings

import numpy as np
import pytest
import torch
from captum.attr import LayerAttribution, LayerGradCam
from tests.outside import outside
from torch import Tensor, nn

import holdfast as hf

NETWORKS = [
    ("paper-cnn", (1, 28, 28), {}, "features"),
    ("paper-cnn", (1, 28, 28), {}, "features.3"),
    ("paper-resnet", (3, 32, 32), {"units_per_stage": 1}, "activation"),
    ("wrn-10-2", (3, 32, 32), {}, "stem"),
    ("digits-cnn", (1, 8, 8), {}, "features.0"),
]
every_network = pytest.mark.parametrize(
    ("name", "shape", "options", "layer"), NETWORKS, ids=[f"{name}/{layer}" for name, _, _, layer in NETWORKS]
)


def network(name: str, shape: tuple[int, int, int], options: dict) -> tuple[nn.Module, Tensor, Tensor]:
    net = hf.models.build(name, num_classes=7, in_channels=shape[0], image_size=shape[1], seed=1, **options).eval()
    return net.double(), torch.rand(3, *shape).double(), torch.tensor([0, 6, 3])


@every_network
def test_captum(name: str, shape: tuple, options: dict, layer: str) -> None:
    model, x, y = network(name, shape, options)
    theirs = LayerGradCam(model, model.get_submodule(layer)).attribute(x, target=y, relu_attributions=True)
    theirs = LayerAttribution.interpolate(theirs, x.shape[2:], interpolate_mode="bilinear")
    ours = hf.GradCAM(layer=layer)(model, x, y)
    assert ours.any()
    torch.testing.assert_close(ours, theirs.expand_as(x), rtol=1e-9, atol=1e-12)
    if layer in ("features", "activation"):
        torch.testing.assert_close(hf.GradCAM()(model, x, y), ours)  # the automatic choice


def stretched(maps: Tensor) -> Tensor:
    """Each map from 0 to 1, as that package returns them."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    return (maps - low) / (high - low)


@every_network
@pytest.mark.parametrize("cam", ["GradCAM", "GradCAMPlusPlus"])
def test_pytorch_grad_cam(name: str, shape: tuple, options: dict, layer: str, cam: str) -> None:
    package = outside("pytorch_grad_cam")
    model, x, y = network(name, shape, options)
    louder = nn.Sequential(model, Times(1e6))  # against the 1e-6 that they add to the squares of gradients
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        targets = [package.utils.model_targets.ClassifierOutputTarget(label) for label in y.tolist()]
        theirs = getattr(package, cam)(louder, [model.get_submodule(layer)])(input_tensor=x, targets=targets)
    ours = stretched(getattr(hf, cam)(layer=layer)(louder, x, y)[:, 0])
    moving = torch.from_numpy(np.ptp(theirs, axis=(1, 2)) > 0)
    assert moving.any()
    torch.testing.assert_close(ours[moving].float(), torch.from_numpy(theirs)[moving].float(), rtol=0, atol=1e-4)


class Times(nn.Module):
    """x times a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor
