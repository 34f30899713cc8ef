"""Batches in an order that depends on (seed, epoch) only, not on the batch size or the number of processes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.data.dataset import Dataset, to_float
from holdfast.errors import expected
from holdfast.rng import make_keys

Batch = tuple[Tensor, Tensor, Tensor]
"""x float32 [B, C, H, W] in [0, 1], y int64 [B], ids int64 [B], on the device."""

_STREAM = 1 << 32  # epoch e shuffles with stream 2^32 + e, separate from the noise of the same seed and epoch


@dataclass(frozen=True, eq=False)
class Loader:
    """Yields `(x, y, ids)`; has no state that a resumed or distributed run must restore.

    `batch_size` is the size of the global batch. Rank r of `world_size` gets the r-th slice of each batch, so the union
    over ranks is the batch of a single process. Slices of a smaller last batch may be uneven or empty; `drop_last`
    omits that batch. Iterating over the loader always yields `epoch(0)`. A training loop calls `epoch(e)`, or
    `batch(step)` to resume in the middle of an epoch.

    >>> from holdfast.data.loading import load
    >>> x, y, ids = Loader(load("digits"), 32).batch(0)
    >>> x.shape
    torch.Size([32, 1, 8, 8])
    """

    dataset: Dataset
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    device: torch.device | str | None = None
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    _orders: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise expected("0 <= rank < world_size", got=f"rank {self.rank} of {self.world_size}")
        if self.batch_size < self.world_size:
            raise expected(f"batch_size >= world_size ({self.world_size})", got=self.batch_size)
        if not len(self):
            raise expected(
                "at least one batch",
                got=f"{len(self.dataset)} examples for batches of {self.batch_size}",
                fix="use a smaller batch_size or drop_last=False",
            )

    def __len__(self) -> int:
        """Number of global batches per epoch."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """All batches of one epoch (this rank's slices), in the order given by (seed, epoch)."""
        start = epoch * len(self)
        return (self.batch(step) for step in range(start, start + len(self)))

    def batch(self, step: int) -> Batch:
        """The batch of a global step, counted from the first step of epoch 0. Random access lets a run resume."""
        if step < 0:
            raise expected("step >= 0", got=step)
        epoch, index = divmod(step, len(self))
        rows = self.order(epoch)[index * self.batch_size : (index + 1) * self.batch_size]
        rows = rows[self.rank * len(rows) // self.world_size : (self.rank + 1) * len(rows) // self.world_size]
        y, ids = self.dataset.y[rows], self.dataset.ids[rows]
        return to_float(self.dataset.x[rows], self.device), y.to(self.device), ids.to(self.device)

    def order(self, epoch: int) -> Tensor:
        """Positions [N] in the order of this epoch, sorted by hash of (seed, epoch, id)."""
        if not self.shuffle:
            return torch.arange(len(self.dataset))
        if epoch not in self._orders:
            self._orders.clear()  # cache the current epoch only, to save memory
            keys = make_keys(self.seed, self.dataset.ids, _STREAM + epoch)
            self._orders[epoch] = torch.argsort(keys, stable=True)
        return self._orders[epoch]
