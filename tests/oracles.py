"""Slow and clear: the reference protocol of IFIA for one image, written down once more with nothing shared.

One image, plain autograd, SciPy's Kendall, a hand-written softplus twin. The batched engine must walk the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import kendalltau
from torch import Tensor, nn


class TinyNet(nn.Module):
    """conv 3x3, leaky ReLU, max-pool, linear, ReLU, linear; `activation` is the one thing the oracle swaps."""

    def __init__(self, classes: int = 3, channels: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3, padding=1)
        self.hidden = nn.Linear(4 * 9, 8)
        self.last = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.through(x, F.relu)

    def through(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        h = F.max_pool2d(activation(self.conv(x)), 2).flatten(1)
        return self.last(activation(self.hidden(h)))


def tiny_net(seed: int = 0, channels: int = 1) -> TinyNet:
    torch.manual_seed(seed)
    return TinyNet(channels=channels).double()


def tiny_images(count: int, seed: int = 0, channels: int = 1) -> Tensor:
    return torch.rand(count, channels, 6, 6, generator=torch.Generator().manual_seed(seed)).double()


@dataclass
class Walk:
    """Every iterate of an attack on one image, and the one that is kept."""

    iterates: list[Tensor] = field(default_factory=list)
    kendall: list[float] = field(default_factory=list)
    kept: Tensor | None = None


def saliency(logit: Callable[[Tensor], Tensor], image: Tensor, points: int, graph: bool = False) -> Tensor:
    """|IG| of `logit` summed over channels, times H W over its sum; one point of the path after the other."""
    total = torch.zeros_like(image)
    for i in range(1, points + 1):
        point = image * (i / points)
        if not point.requires_grad:
            point = point.detach().requires_grad_()
        total = total + torch.autograd.grad(logit(point), point, create_graph=graph)[0]
    amount = (image * total / points).abs().sum(0)
    return amount / amount.sum() * amount.numel()


def ifia_topk(
    net: TinyNet, image: Tensor, label: int, *, eps: float, alpha: float, steps: int, k: int, points: int
) -> Walk:
    """The top-k attack on one image [C, H, W], step by step as the public code does it."""

    def relu_logit(v: Tensor) -> Tensor:
        return net(v[None])[0, label]

    def soft_logit(v: Tensor) -> Tensor:
        return net.through(v[None], F.softplus)[0, label]

    clean = saliency(relu_logit, image, points).detach().numpy()
    mask = np.zeros(clean.size, dtype=bool)
    mask[np.argsort(-clean.ravel(), kind="stable")[:k]] = True
    walk, best, current = Walk(), 1.0, image.clone()
    for _ in range(steps):
        moving = current.detach().requires_grad_()
        mass = (saliency(soft_logit, moving, points, graph=True).flatten() * torch.from_numpy(mask)).sum()
        direction = -torch.autograd.grad(mass, moving)[0]
        current = current + alpha * direction.sign()
        current = torch.minimum(torch.maximum(current, image - eps), image + eps).clamp(0, 1)
        shown = saliency(relu_logit, current, points).detach().numpy()
        kept_label = int(net(current[None]).argmax()) == label
        tau = float(kendalltau(clean.ravel(), shown.ravel()).statistic) if kept_label else 1.0
        walk.iterates.append(current)
        walk.kendall.append(tau)
        if tau < best:
            best, walk.kept = tau, current
    return walk
