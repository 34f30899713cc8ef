"""What people pass from Python: `audit`, `evaluate` and `harden` answer networks and images that do not fit alike."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.experiment.harden_material import FAST, FEW, net_with, trained_weights
from torch import nn

import holdfast as hf
from holdfast.recipes import AttackSettings, make_attacks

GREY = FEW.subset(range(12))
QUICK = {"eps": 0.1, "steps": 1, "ig_steps": 2, "limit": 4, "strong": False}
PROTOCOL = hf.EvaluationProtocol(
    attacks=make_attacks(AttackSettings(eps=0.1, steps=1, k=6, ig_steps=2), ["ifia-topk"]), panels=0
)


def audit(net: nn.Module, data: hf.data.Dataset = GREY) -> object:
    return hf.audit(net, data, labels="predicted", **QUICK)


def evaluate(net: nn.Module, data: hf.data.Dataset = GREY) -> object:
    return hf.evaluate(net, data, PROTOCOL)


def harden(net: nn.Module, data: hf.data.Dataset = FEW) -> object:
    return hf.harden(net, data, max_accuracy_drop=1.0, **FAST | {"steps": 1})


every_door = pytest.mark.parametrize("door", [audit, evaluate, harden])


@every_door
def test_images_that_the_network_does_not_take(door: Callable) -> None:
    colour = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 10))
    with pytest.raises(hf.InputError, match="images of 3 channels, as the network takes them, got 1 channel, 8 x 8"):
        door(colour)
    with pytest.raises(hf.InputError, match=r"it takes images of 16 x 16: pass size=16"):
        door(nn.Sequential(nn.Flatten(), nn.Linear(256, 10)))


@every_door
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_networks_of_another_precision(door: Callable, dtype: torch.dtype) -> None:
    net = net_with(trained_weights()).to(dtype)  # with the buffers of batch norm
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = door(net)
    assert {value.dtype for value in net.state_dict().values() if value.is_floating_point()} == {dtype}
    if door is harden:
        assert str(found).count(f"the network is built in {str(dtype)[6:]}") == 1
        return
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    if door is audit:
        assert f"the network is built in {str(dtype)[6:]}; holdfast computes in float32" in found.notes


def test_a_hardening_that_cannot_start_leaves_the_precision() -> None:
    net = hf.models.build("digits-cnn", num_classes=10, seed=0).half()
    with pytest.raises(hf.InputError, match="a DataLoader of"):
        hf.harden(net, 3)
    with pytest.raises(hf.InputError, match=r"labels from 0 to 8, one per output of the model, got labels from 0 to 9"):
        harden(nn.Sequential(nn.Flatten(), nn.Linear(64, 9)).half())
    assert {p.dtype for p in net.parameters()} == {torch.float16}


X, Y = hf.data.to_float(GREY.x[:4]), GREY.y[:4]
NET = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (Y.numpy(), r"int64 labels \[4\], one per image, got ndarray; convert them with torch.as_tensor\(y\).long"),
        (Y.int(), r"int64 labels \[4\].*got torch.int32 of shape \[4\]; convert them"),
        (Y[:3], r"int64 labels \[4\], one per image, got torch.int64 of shape \[3\]\.$"),
        (Y + 10, "labels from 0 to 9, one per output of the model, got labels from 1"),
        (Y - 100, "labels from 0 to 9, one per output of the model, got labels from -"),
    ],
)
@pytest.mark.parametrize("score", ["true-logit", "true-loss"])
def test_labels_of_a_map(y: object, text: str, score: str) -> None:
    with pytest.raises(hf.InputError, match=text):
        hf.Gradient(score=hf.attribution.score_of(score))(NET, X, y)


def test_an_error_of_the_network_stays_what_it_is() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 1:
                raise IndexError("index 7 is out of bounds")
            return x.flatten(1)

    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        hf.Gradient()(Broken(), X, Y)


def test_arrays_where_tensors_are_expected() -> None:
    net = hf.Classifier(NET)
    with pytest.raises(hf.InputError, match=r"x to be a tensor, got ndarray; convert it with torch.as_tensor"):
        net(X.numpy())
    objective = hf.recipes.natural(net)
    for name, batch in {"x": (X.numpy(), Y), "y": (X, Y.numpy())}.items():
        with pytest.raises(hf.InputError, match=f"{name} to be a tensor, got ndarray"):
            objective(*batch)


def test_training_on_bytes_as_floats() -> None:
    net = hf.Classifier(NET)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = [(np.float32(255) * X, Y), (X, Y)]
    with pytest.raises(hf.InputError, match=r"pixels in \[0, 1\], got up to 255; divide them by 255"):
        hf.fit(hf.recipes.natural(net), loader, optimizer, steps=1, progress=False)
