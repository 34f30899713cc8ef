"""Datasets from data in memory: tensors, or a `torch.utils.data.DataLoader`."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.data.dataset import Dataset
from holdfast.data.loader import Loader
from holdfast.errors import expected


def from_tensors(
    x: Tensor, y: Tensor, *, ids: Tensor | None = None, name: str = "tensors", class_names: Sequence[str] = ()
) -> Dataset:
    """Build a dataset from images [N, C, H, W], uint8 or floats in [0, 1], and labels [N].

    `ids` default to 0 ... N - 1; `class_names` default to the class indices.

    >>> from_tensors(torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 1, 0])).num_classes
    2
    """
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise expected("x and y as tensors", got=f"{type(x).__name__} and {type(y).__name__}")
    x, y = x.detach().cpu(), y.detach().cpu().to(torch.int64)
    x = x if x.dtype == torch.uint8 else x.to(torch.float32)
    names = tuple(class_names) or tuple(map(str, range(int(y.max()) + 1 if len(y) else 0)))
    digest = hashlib.sha256(x.contiguous().numpy().tobytes() + y.contiguous().numpy().tobytes())
    return Dataset(
        x=x,
        y=y,
        ids=torch.arange(len(y)) if ids is None else ids.detach().cpu().to(torch.int64),
        name=name,
        split="all",
        class_names=names,
        source=name,
        checksum=digest.hexdigest(),
    )


def from_loader(loader: Iterable[Any], *, name: str = "loader", class_names: Sequence[str] = ()) -> Dataset:
    """Build a dataset from one epoch of batches (x, y) or (x, y, id), such as a torch DataLoader."""
    columns: list[list[Tensor]] = [[], [], []]
    for batch in loader:
        for column, value in zip(columns, split_batch(batch), strict=False):
            column.append(value)
    xs, ys, ids = columns
    if not xs:
        raise expected("a loader with at least one batch", got="none")
    return from_tensors(
        torch.cat(xs), torch.cat(ys), ids=torch.cat(ids) if ids else None, name=name, class_names=class_names
    )


def split_batch(batch: Any) -> tuple[Tensor, ...]:
    """Unpack one batch of a user's loader to tensors (x, y) or (x, y, ids)."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        got = f"{type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")
        raise expected("batches (x, y) or (x, y, id)", got=got, fix="map the loader's batches to such tuples")
    return tuple(torch.as_tensor(part) for part in batch)


def as_dataset(data: Any) -> Dataset:
    """Convert a dataset, a holdfast loader or an iterable of batches to a dataset."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Loader):
        return data.dataset
    if not isinstance(data, Iterable):
        raise expected("a holdfast dataset or loader, or a DataLoader of (x, y)", got=type(data).__name__)
    return from_loader(data)
