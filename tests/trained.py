"""Small networks trained on the embedded digits in seconds, once a test process."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import holdfast as hf


def digits(split: str, size: int = 8) -> tuple[Tensor, Tensor]:
    data = hf.data.load("digits", split=split)
    x = hf.data.to_float(data.x)
    return (x if size == 8 else F.interpolate(x, size=(size, size))), data.y


@cache
def trained(name: str, size: int, steps: int = 150, **options: object) -> nn.Module:
    """A naturally trained network on digits of `size` pixels."""
    x, y = digits("train", size)
    net = hf.models.build(name, num_classes=10, image_size=size, seed=0, **options)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


@cache
def trained_by(method: str, steps: int = 150, **settings: object) -> nn.Module:
    """A `digits-cnn` trained on the digits by one of the methods, with eps = 0.15."""
    x, y = digits("train")
    net = hf.models.build("digits-cnn", seed=0)
    objective = hf.recipes.METHODS[method](net, eps=0.15, attack_steps=4, step_size=0.06, **settings)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(steps):
        rows = torch.randint(len(x), (64,), generator=torch.Generator().manual_seed(step))
        loss = objective(x[rows], y[rows], hf.make_keys(step, rows)).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()
