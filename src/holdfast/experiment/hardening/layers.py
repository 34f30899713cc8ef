"""Training modes and trainable parameters during hardening; the caller's own are restored afterwards."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from torch import nn

from holdfast.engine.modes import BATCH_NORM


@contextmanager
def fine_tuning_modes(model: nn.Module, *, batch_norm: str) -> Iterator[None]:
    """Training mode inside the block, but for layers that the caller froze, and batch norm if its statistics are fixed.

    A network that is in evaluation mode as a whole, as after loading, has no frozen layers.
    """
    before = {layer: layer.training for layer in model.modules()}
    mixed = any(mode for layer, mode in before.items() if not any(layer.children()))
    for layer, mode in before.items():
        fixed = batch_norm == "fixed" and isinstance(layer, BATCH_NORM)
        layer.training = (mode or not mixed) and not fixed
    try:
        yield
    finally:
        for layer, mode in before.items():
            layer.training = mode


@contextmanager
def frozen_parameters(model: nn.Module, names: Collection[str]) -> Iterator[None]:
    """The named parameters require no gradient inside the block."""
    chosen = [parameter for name, parameter in model.named_parameters() if name in names]
    for parameter in chosen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in chosen:
            parameter.requires_grad_(True)
