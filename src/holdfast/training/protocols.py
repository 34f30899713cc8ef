"""The interfaces that the trainer requires of an objective and a loader, small enough for user implementations."""

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor, nn

from holdfast.errors import expected

Schedule = Callable[[int], float]
"""Maps a step, counted from 0, to a learning rate; a pure function, so a resumed run restores no state."""

Validate = Callable[[nn.Module], Mapping[str, float]]
"""Maps the model, in evaluation mode, to named numbers."""


class StepOutput(Protocol):
    """The scalar to minimise, with its graph, and its named parts, detached."""

    @property
    def total(self) -> Tensor: ...
    @property
    def parts(self) -> Mapping[str, Tensor]: ...


class TrainableObjective(Protocol):
    """A `torch.nn.Module` around the model.

    It returns a mean over the batch, so that the mean over slices equals that of the whole batch. The trainer sets
    `budget`, the factor in [0, 1] on the radius of the attack, before each step. The objective updates
    `example_passes`, the number of example-passes so far, see `holdfast.engine.passes`.
    """

    budget: float
    example_passes: int

    @property
    def model(self) -> nn.Module: ...
    def __call__(self, x: Tensor, y: Tensor, keys: Tensor) -> StepOutput: ...


class Batches(Protocol):
    """Random access to the batch `(x, y, ids)` of a global step; `len` is the number of steps per epoch."""

    def __len__(self) -> int: ...
    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]: ...


def as_module(objective: TrainableObjective) -> nn.Module:
    """The objective as an `nn.Module`, for its parameters, buffers and modes; raises if it is not one."""
    if not isinstance(objective, nn.Module):
        fix = "subclass it and set .model, .budget and .example_passes in __init__"
        raise expected("an objective that is a torch.nn.Module", got=type(objective).__name__, fix=fix)
    if "model" not in dict(objective.named_children()):
        got = ", ".join(name for name, _ in objective.named_children()) or "none"
        raise expected("an objective with a submodule called model", got=got)
    return objective
