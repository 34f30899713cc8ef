"""Checks before each update, so that an invalid loss or gradient never reaches the weights."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median

from torch import Tensor, nn

from holdfast.errors import HoldfastError, expected

WINDOW, ENOUGH = 100, 20


class DivergedError(HoldfastError):
    """The loss or its gradient became infinite or NaN, or the loss became far larger than before."""


class LossGuard:
    """Checks that the loss is finite and at most `factor` times max(1, median of the last 100 absolute losses).

    The first 20 losses only have to be finite. `recent` is the complete state.
    """

    def __init__(self, factor: float, recent: Iterable[float] = ()) -> None:
        if not factor > 1:
            raise expected("an explosion factor > 1", got=factor, fix="float('inf') switches the check off")
        self.factor = factor
        self.recent = deque(recent, maxlen=WINDOW)

    def complaint(self, total: float, gradient_norm: float) -> str:
        """A description of the problem with this step, or an empty string; a valid loss is added to `recent`."""
        if not math.isfinite(total):
            return f"the loss became {total}"
        if not math.isfinite(gradient_norm):
            return f"the gradient became {gradient_norm}"
        if len(self.recent) >= ENOUGH and abs(total) > self.factor * max(usual := median(self.recent), 1.0):
            return f"the loss exploded to {total:g} (median of the previous steps: {usual:g})"
        self.recent.append(abs(total))
        return ""


def diverged(complaint: str, *, step: int, parts: Mapping[str, Tensor], last_good: str) -> DivergedError:
    """The error that names the step, the parts of the loss and the last good checkpoint."""
    values = ", ".join(f"{name} = {float(value):g}" for name, value in parts.items())
    return DivergedError(
        f"{complaint} at step {step} ({values}); the weights were not updated; last good checkpoint: {last_good}; "
        "lower the learning rate, clip with max_grad_norm or lengthen the warm-up."
    )


def without_gradient(module: nn.Module) -> list[str]:
    """Names of the trainable parameters that the backward pass did not reach."""
    return [name for name, p in module.named_parameters() if p.requires_grad and p.grad is None]


def unreached(names: list[str]) -> HoldfastError:
    """The error for parameters without a gradient, for which processes would wait or get different weights."""
    fix = "freeze them with requires_grad_(False), or use them in the objective"
    return expected("a gradient for every trainable parameter", got=f"none for {', '.join(names)}", fix=fix)
