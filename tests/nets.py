"""Tiny networks with known answers, and networks written in every awkward way users write them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LinearSoftmax(nn.Module):
    """logits = W x + b: its gradient is W, so every map has a closed form."""

    def __init__(self, pixels: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(pixels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))


class Quadratic(nn.Module):
    """logit_c = sum_i w_ci x_i^2: gradient 2 w x, integrated gradients w x^2 in the limit."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).square() @ self.weight.T


class AwkwardReLUs(nn.Module):
    """Module, functional, method and in-place ReLUs, results used and results dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.third = nn.Linear(16, 8)
        self.last = nn.Linear(8, 3)
        self.inplace = nn.ReLU(inplace=True)
        self.leaky = nn.LeakyReLU(0.1, inplace=True)
        self.prelu = nn.PReLU()
        self.six = nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inplace(self.first(x))
        h = self.second(h)
        F.relu_(h)
        h = F.leaky_relu(F.max_pool2d(h, 2), negative_slope=0.2).flatten(1)
        h = self.third(h).relu_()
        h = self.six(self.leaky(torch.relu(h) - 0.1) * 2)
        return self.last(F.relu(self.prelu(h), inplace=True))


class BatchNormNet(nn.Module):
    """Batch norm and an in-place ReLU behind a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        out = self.body(h)
        out += h
        return self.head(F.relu(out, inplace=True).mean((2, 3)))


class AttentionNet(nn.Module):
    """Pixels as tokens, fused attention, GELU and SiLU."""

    def __init__(self, heads: int = 2, width: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(1, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, 16), nn.SiLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.flatten(1)[:, :, None])
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(tokens).chunk(3, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.head(self.mlp(tokens + mixed).mean(1))


class _OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad * 2


class OnceOnly(nn.Module):
    """A hand-written layer whose gradient has no derivative."""

    def forward(self, x: Tensor) -> Tensor:
        return _OnceOnly.apply(x)


class Detached(nn.Module):
    """A layer that cuts the graph."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach() * 2


class Bypassed(nn.Module):
    """Takes grey 8 x 8 images; its last layer sees the image itself, too, so that Grad-CAM cannot choose a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.end = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(320, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(torch.cat([self.conv(x), x], 1).flatten(1))
