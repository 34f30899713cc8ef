"""Context managers that change the state of a network and restore it afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from holdfast.types import Model


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
    """No parameter requires a gradient inside the block, so that only the gradient in the image is computed."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    thawed = [p for p in parameters if p.requires_grad]
    for parameter in thawed:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in thawed:
            parameter.requires_grad_(True)
