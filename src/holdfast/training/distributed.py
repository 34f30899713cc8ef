"""Several processes: rank and world size, collective operations, and averaging of gradients.

In training, every process holds the whole model and a slice of each global batch. Gradients are averaged in proportion
to the slices, so the weights equal those of one process with the whole batch. This requires an objective that is a mean
over its examples, and layers that process each example independently (batch norm sees its slice only).

In an evaluation, every process attacks whole batches, and rank 0 writes the rows in the order of one process.
"""

import gc
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from holdfast.errors import HoldfastError, expected
from holdfast.training.protocols import Batches

T = TypeVar("T")

LONGEST_WAIT = timedelta(days=1)
"""Time one process waits for the others. A process that ended is noticed at once; this is for one that is only slow."""


class LostProcessError(HoldfastError):
    """Another process of the group ended before the work was done."""


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
        total = torch.tensor(values, dtype=torch.float64, device=_device())
        dist.all_reduce(total)
        summed: list[float] = total.tolist()
        return summed

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes in the order of their ranks. `value` is made of JSON types; a collective call."""
        if self.world_size == 1:
            return [value]
        mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(_device())
        sizes = [torch.zeros(1, dtype=torch.int64, device=_device()) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(mine)], device=_device()))
        longest = max(int(size) for size in sizes)
        texts = [mine.new_zeros(longest) for _ in sizes]
        dist.all_gather(texts, nn.functional.pad(mine, (0, longest - len(mine))))
        return [json.loads(t[: int(n)].cpu().numpy().tobytes()) for t, n in zip(texts, sizes, strict=True)]

    def each(self, action: Callable[[], T]) -> list[T]:
        """Run `action` in every process and gather the results; if it fails in one process, all raise."""
        result, error = None, None
        try:
            result = action()
        except Exception as caught:
            error = caught
        found = self.gather([error is not None, result])
        if error is not None:
            raise error
        failed = [str(rank) for rank, (broke, _) in enumerate(found) if broke]
        if failed:
            raise HoldfastError(f"the process with rank {', '.join(failed)} failed; see its error message.")
        return [result for _, result in found]

    def rounds(self, parts: Sequence[T]) -> Iterator[tuple[T | None, Sequence[T]]]:
        """Deal the parts out in order: in each round, this process's part (None if none is left) and those of all."""
        for start in range(0, len(parts), self.world_size):
            dealt = parts[start : start + self.world_size]
            yield dealt[self.rank] if self.rank < len(dealt) else None, dealt

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

    def shared(self, action: Callable[[], T]) -> T:
        """Run `action` on rank 0 only and give its result, made of JSON types, to all processes."""
        found: T = self.gather(self.leading(action))[0]
        return found

    def wrap(self, module: nn.Module) -> Callable[..., Any]:
        """The objective, with gradients averaged over all processes in the backward pass."""
        if self.world_size == 1:
            return module
        device = next(module.parameters()).device
        return nn.parallel.DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)


def _device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


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
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=LONGEST_WAIT)
    try:
        yield current()
    except RuntimeError as error:
        if not _lost(error):
            raise
        what = "another process ended before the work was done"
        fix = "everything up to the last checkpoint and the last rows is saved; run the same command again to resume"
        raise LostProcessError(f"{what}, see its messages; {fix}.") from error
    finally:
        gc.collect()  # free the wrapped objective before its process group, or its threads may outlive Python
        dist.destroy_process_group()


def _lost(error: RuntimeError) -> bool:
    """Whether an error says that the connection to another process broke; gloo has no class of its own for it."""
    return isinstance(error, dist.DistError) or "gloo" in str(error) or "Connection closed by peer" in str(error)


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
