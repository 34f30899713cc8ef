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
