"""States of a network for the length of a block, everything restored after."""

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


@contextmanager
def frozen(model: Model) -> Iterator[None]:
    """Inside: no parameter asks for a gradient, so that none is computed on the way to the gradient in the image."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    thawed = [p for p in parameters if p.requires_grad]
    for parameter in thawed:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in thawed:
            parameter.requires_grad_(True)
