"""Adapter from a user's loader to the interface of the training loop."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor

from holdfast.data.dataset import to_float
from holdfast.data.from_torch import split_batch
from holdfast.engine.checks import check_scale
from holdfast.errors import expected
from holdfast.training.protocols import Batches


class EpochBatches:
    """Batches (x, y, ids) of an iterable with a length, such as a torch DataLoader, epoch by epoch.

    A resumed run skips the batches that are done. It reproduces the uninterrupted run only if the loader yields the
    same batches in every epoch, or shuffles with its own generator. Without ids, examples are numbered in the order of
    the loader.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        if not isinstance(loader, Sized) or not len(loader):
            fix = "pass a holdfast Loader or a torch DataLoader over a dataset with a length"
            raise expected("a loader with at least one batch and a length", got=type(loader).__name__, fix=fix)
        self.loader = loader
        self._batches: Iterator[Any] = iter(())
        self._next = -1
        self._looked = False
        self._seen = 0

    def __len__(self) -> int:
        return len(self.loader)

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """The batch of a global step. Steps must be requested in order; a resumed run skips to its first step."""
        if step != self._next:  # first call: skip to the position inside the epoch
            self._restart()
            for _ in range(step % len(self)):
                self._take()
        elif step % len(self) == 0:
            self._restart()
        self._next = step + 1
        return self._take()

    def _restart(self) -> None:
        self._batches, self._seen = iter(self.loader), 0

    def _take(self) -> tuple[Tensor, Tensor, Tensor]:
        x, y, *rest = split_batch(next(self._batches))
        ids = rest[0] if rest else torch.arange(self._seen, self._seen + len(y), device=y.device)
        self._seen += len(y)
        x = x if x.is_floating_point() else to_float(x)
        if not self._looked:  # only the first batch: the look waits for a GPU
            check_scale(x)
            self._looked = True
        return x, y.to(torch.int64), ids.to(torch.int64)


def as_batches(loader: Batches | Iterable[Any]) -> Batches:
    """The loader itself if it provides batches by step, else an `EpochBatches` around it."""
    if hasattr(loader, "batch") and hasattr(loader, "__len__"):
        return loader  # type: ignore[return-value]  # it satisfies the protocol
    return EpochBatches(loader)
