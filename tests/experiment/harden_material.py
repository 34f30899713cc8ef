"""A small network and its images for the tests of hardening."""

from functools import cache

import torch
from torch import nn

import holdfast as hf

DIGITS = hf.data.load("digits")
FEW = DIGITS.stratified(200, seed=0)
FAST = {"eps": 0.1, "steps": 4, "limit": 4, "passes": 1, "strong": False, "batch_size": 16, "progress": False}
"""Settings of a hardening that takes about a second."""


class Net(nn.Module):
    """Batch norm, dropout and a frozen first layer, as in a user's own fine-tuning."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(4 * 36, 10)
        self.first.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.relu(self.norm(self.first(x))).flatten(1)))


@cache
def trained_weights() -> dict[str, torch.Tensor]:
    """Weights of a naturally trained `Net`."""
    torch.manual_seed(0)
    net = hf.Classifier(Net())
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    hf.fit(hf.recipes.natural(net), hf.data.Loader(DIGITS, 50), optimizer, steps=60, progress=False)
    return {name: value.clone() for name, value in net.net.state_dict().items()}


def net_with(weights: dict[str, torch.Tensor]) -> Net:
    net = Net()
    net.load_state_dict(weights)
    return net
