"""Networks, checkpoints and images of a user, and a quick `holdfast audit`, for the tests of its input."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.trained import trained

import holdfast as hf
from holdfast.cli import main

NETS = """
import torch
import holdfast as hf
from torch import nn
from tests.nets import Bypassed, OnceOnly


class Colour(nn.Module):
    # the digits network behind a layer that takes three channels
    def __init__(self, num_classes=10, seed=3):
        super().__init__()
        self.mix = nn.Conv2d(3, 1, 1, bias=False)
        self.inner = hf.models.build("digits-cnn", num_classes=num_classes, seed=seed)

    def forward(self, x):
        return self.inner(self.mix(x))


class Wrapped(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.inner, self.form = grey(), form

    def forward(self, x):
        z = self.inner(x)
        forms = {"tuple": (x, z), "dict": {"logits": z, "more": x}, "softmax": z.softmax(1), "boxes": [z[:, :, None]]}
        return forms[self.form]


def grey(num_classes=10):
    return hf.models.build("digits-cnn", num_classes=num_classes, seed=3)


def half():
    return grey().half()


def broken(width=3):
    assert width % 2 == 0, "width must be even"


def rigid():
    return nn.Sequential(OnceOnly(), grey())


def constant():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.eye(10)[3])

        def forward(self, x):
            return self.bias + 0 * x.sum((1, 2, 3))[:, None]

    return Constant()


def deep():
    # four poolings: takes images of at least 16 x 16
    pools = [layer for _ in range(4) for layer in (nn.Conv2d(1, 1, 3, padding=1), nn.MaxPool2d(2))]
    return nn.Sequential(*pools, nn.Flatten(), nn.LazyLinear(10))


def strides():
    return nn.Sequential(nn.Conv2d(1, 4, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
"""


def make_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of networks, checkpoints of two of them, and ten classes of grey PNGs."""
    (tmp_path / "nets_of_user.py").write_text(NETS)
    net, digits = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    state = {f"inner.{name}": value for name, value in net.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "inner.pt")
    state["mix.weight"] = torch.full((1, 3, 1, 1), 1 / 3)
    torch.save({"model": {f"_orig_mod.{k}": v.half() for k, v in state.items()}}, tmp_path / "colour.pth")
    torch.save(net.state_dict(), tmp_path / "grey.pt")
    for label in range(10):
        (tmp_path / "images" / str(label)).mkdir(parents=True)
        for i in (digits.y == label).nonzero().flatten()[:2].tolist():
            Image.fromarray(np.asarray(digits.x[i, 0])).save(tmp_path / "images" / str(label) / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_of_user", raising=False)
    return tmp_path


QUICK = "--steps 1 --ig-steps 2 --no-strong --limit 4 --quiet"


def audit(line: str, out: str = "out") -> int:
    """Run the command; later options replace earlier ones of the same name."""
    return main(["audit", *f"--data images {QUICK} --out {out} {line}".split()])


def summary(out: str = "out") -> dict:
    return json.loads(Path(out, "summary.json").read_text())
