"""Distributed training: rank and world size, collective operations, and averaging of gradients.

Every process holds the whole model and a slice of each global batch. Gradients are averaged in proportion to the
slices, so the weights equal those of one process with the whole batch. This requires an objective that is a mean over
its examples, and layers that process each example independently (batch norm sees its slice only).
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from holdfast.errors import HoldfastError, expected
from holdfast.training.protocols import Batches

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among `world_size`. A single process does not communicate."""

    rank: int = 0
    world_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints messages (rank 0)."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Each value summed over all processes. A collective call: all processes must make it, and it blocks."""
        if self.world_size == 1:
            return list(values)
        on = "cuda" if dist.get_backend() == "nccl" else "cpu"
        total = torch.tensor(values, dtype=torch.float64, device=on)
        dist.all_reduce(total)
        summed: list[float] = total.tolist()
        return summed

    def mean(self, *values: float, share: float) -> list[float]:
        """Each value averaged over the examples of the global batch; `share` is the weight that `take` returns."""
        return [value / self.world_size for value in self.sum(*(v * share if share else 0.0 for v in values))]

    def take(self, x: Tensor, y: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
        """This process's slice of the global batch, and the weight of its loss: its size relative to an even share.

        An empty slice becomes one black image of weight 0, so that the process still takes part in collective calls.
        """
        if self.world_size == 1:
            return x, y, ids, 1.0
        (examples,) = self.sum(len(y))
        if len(y):
            return x, y, ids, len(y) * self.world_size / examples
        return x.new_zeros(1, *x.shape[1:]), y.new_zeros(1), ids.new_zeros(1), 0.0

    def leading(self, action: Callable[[], T]) -> T | None:
        """Run `action` on rank 0 only; if it fails, all processes raise instead of waiting for it."""
        result, error = None, None
        if self.leads:
            try:
                result = action()
            except Exception as caught:
                error = caught
        (failed,) = self.sum(error is not None)
        if error is not None:
            raise error
        if failed:
            raise HoldfastError("the process with rank 0 failed; see its error message.")
        return result

    def wrap(self, module: nn.Module) -> Callable[..., Any]:
        """The objective, with gradients averaged over all processes in the backward pass."""
        if self.world_size == 1:
            return module
        device = next(module.parameters()).device
        return nn.parallel.DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)


def current() -> Processes:
    """The current process group, or a single process if there is none."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return Processes()


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """Join the process group that `torchrun` started, for the duration of a block; without it, a single process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or current().world_size > 1:
        yield current()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield current()
    finally:
        gc.collect()  # free the wrapped objective before its process group, or its threads may outlive Python
        dist.destroy_process_group()


def pick_device(name: str = "auto") -> torch.device:
    """The device called `name`; 'auto' selects this process's GPU if there is one, else the CPU.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        fix = "'auto' selects an available device"
        raise expected("a device this machine has", got=f"{name!r} ({str(error).splitlines()[0]})", fix=fix) from None


def check_slices(loader: Batches, processes: Processes) -> None:
    """Raise if the loader slices its batches for another rank or number of processes."""
    wanted = (processes.rank, processes.world_size)
    got = (getattr(loader, "rank", wanted[0]), getattr(loader, "world_size", wanted[1]))
    if got != wanted:
        fix = f"build it with rank={wanted[0]}, world_size={wanted[1]}"
        raise expected(f"a loader for process {wanted[0]} of {wanted[1]}", got=f"{got[0]} of {got[1]}", fix=fix)
