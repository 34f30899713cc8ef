"""The two optimisers of the papers as settings. Calling one with a model builds the `torch.optim.Optimizer`.

Weight decay is the penalty ½ · weight_decay · ‖w‖² on kernels only: parameters with more than one dimension, not biases
or the scales and shifts of normalisation. weight_decay · w is added to the gradient before the optimiser step, as in
the papers' public code.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from holdfast.errors import expected


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma and Ba 2015).

    >>> Adam(lr=1e-4)(nn.Linear(2, 3)).defaults["lr"]
    0.0001
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise expected("betas in [0, 1)", got=self.betas)

    def __call__(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(decay_kernels(model, self.weight_decay), lr=self.lr, betas=self.betas, eps=self.eps)


@dataclass(frozen=True, kw_only=True)
class SGD:
    """SGD with momentum: v ← momentum · v + g, w ← w - lr · v; optionally with Nesterov momentum."""

    lr: float
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay)
        if not 0 <= self.momentum < 1:
            raise expected("momentum in [0, 1)", got=self.momentum)
        if self.nesterov and not self.momentum:
            raise expected("momentum > 0 with nesterov", got=self.momentum)

    def __call__(self, model: nn.Module) -> torch.optim.Optimizer:
        groups = decay_kernels(model, self.weight_decay)
        return torch.optim.SGD(groups, lr=self.lr, momentum=self.momentum, nesterov=self.nesterov)


OPTIMIZERS = {"adam": Adam, "sgd": SGD}
"""Name -> settings of the optimiser."""


def decay_kernels(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for any `torch.optim` class: trainable kernels with weight decay, other parameters without."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    if not trainable:
        raise expected("a model with trainable parameters", got="none", fix="call requires_grad_(True) on some")
    kernels = [p for p in trainable if p.dim() > 1]
    others = [p for p in trainable if p.dim() <= 1]
    groups = [{"params": kernels, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def _check(lr: float, weight_decay: float) -> None:
    if not 0 <= lr < float("inf"):
        raise expected("lr >= 0", got=lr)
    if not 0 <= weight_decay < float("inf"):
        raise expected("weight_decay >= 0", got=weight_decay)
