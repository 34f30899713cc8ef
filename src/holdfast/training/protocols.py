"""What the trainer asks of an objective and of a loader: little enough that users bring their own."""

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor, nn

from holdfast.errors import expected

Schedule = Callable[[int], float]
"""Step, counted from 0, to learning rate; a pure function, so that a resumed run needs no state of it."""

Validate = Callable[[nn.Module], Mapping[str, float]]
"""Model, in evaluation mode, to named numbers."""


class StepOutput(Protocol):
    """The scalar to descend, with its graph, and every named part of it, detached."""

    @property
    def total(self) -> Tensor: ...
    @property
    def parts(self) -> Mapping[str, Tensor]: ...


class TrainableObjective(Protocol):
    """A `torch.nn.Module` around the model; a mean over the batch, so that shards average to the whole.

    The trainer sets `budget`, the factor in [0, 1] on the radius of the attack, before each step. The objective
    itself adds to `example_passes`, the number of images sent through the network so far.
    """

    budget: float
    example_passes: int

    @property
    def model(self) -> nn.Module: ...
    def __call__(self, x: Tensor, y: Tensor, keys: Tensor) -> StepOutput: ...


class Batches(Protocol):
    """Random access to the batch `(x, y, ids)` of a global step; `len` is the number of steps in an epoch."""

    def __len__(self) -> int: ...
    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]: ...


def as_module(objective: TrainableObjective) -> nn.Module:
    """The objective as the module it has to be, for its parameters, buffers and modes."""
    if not isinstance(objective, nn.Module):
        fix = "subclass it and set .model, .budget and .example_passes in __init__"
        raise expected("an objective that is a torch.nn.Module", got=type(objective).__name__, fix=fix)
    if "model" not in dict(objective.named_children()):
        got = ", ".join(name for name, _ in objective.named_children()) or "none"
        raise expected("an objective with a submodule called model", got=got)
    return objective
