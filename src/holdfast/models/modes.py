"""Evaluation mode for the length of a block, every module's own mode restored after."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from holdfast.types import Model


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Inside: no dropout, batch-norm statistics used and not updated. A plain function has no mode."""
    modes = {m: m.training for m in model.modules()} if isinstance(model, nn.Module) else {}
    for module in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
