"""Context managers that change the state of a network or of the engine and restore it afterwards."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from holdfast.engine.layout import kept_copies
from holdfast.types import Model

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""Layers that keep statistics of their batches; the lazy ones become one of these in their first pass."""


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Evaluation mode: no dropout; batch-norm statistics are used but not updated. No effect on a plain function."""
    modes = {m: m.training for m in model.modules()} if isinstance(model, nn.Module) else {}
    for module in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def frozen(model: Model) -> Iterator[None]:
    """No parameter requires a gradient inside the block, so that only the gradient in the image is computed.

    The weights must not change inside the block: they are copied into the layout of the network only once.
    """
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    thawed = [p for p in parameters if p.requires_grad]
    for parameter in thawed:
        parameter.requires_grad_(False)
    try:
        with kept_copies(model):
            yield
    finally:
        for parameter in thawed:
            parameter.requires_grad_(True)


_PLAIN = 0  # how many `plain_kernels` are open, in any thread: worker threads must see the setting, too
_PLAIN_LOCK = threading.Lock()


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Inside the block the whole process computes with PyTorch's own layers, without any of the fast kernels.

    The results are the same up to rounding; use it to find out whether a kernel is the cause of a problem.

    >>> import torch
    >>> import holdfast as hf
    >>> net, x = hf.models.build("digits-cnn", seed=0), torch.rand(2, 1, 8, 8)
    >>> y = net(x).argmax(1)
    >>> with hf.plain_kernels():
    ...     plain = hf.IntegratedGradients(steps=3)(net, x, y)
    >>> torch.allclose(plain, hf.IntegratedGradients(steps=3)(net, x, y), atol=1e-5)
    True
    """
    _count_plain(1)
    try:
        yield
    finally:
        _count_plain(-1)


def kernels_are_plain() -> bool:
    """Whether a `plain_kernels` block is open."""
    return _PLAIN > 0


def _count_plain(change: int) -> None:
    global _PLAIN
    with _PLAIN_LOCK:
        _PLAIN += change
