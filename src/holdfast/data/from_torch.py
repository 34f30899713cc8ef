"""Datasets from data in memory: tensors, or a `torch.utils.data.DataLoader`."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.dataset import Dataset
from holdfast.data.loader import Loader
from holdfast.errors import expected

Images = Tensor | np.ndarray
"""Images or labels in memory."""


def from_tensors(
    x: Images, y: Images, *, ids: Tensor | None = None, name: str = "tensors", class_names: Sequence[str] = ()
) -> Dataset:
    """Build a dataset from images [N, C, H, W], uint8 or floats in [0, 1], and labels [N].

    Both are tensors or NumPy arrays. Images [N, H, W, C] are accepted if only their last axis can be the channels (1 or
    3 of them). `ids` default to 0 ... N - 1; `class_names` default to the class indices.

    >>> from_tensors(torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 1, 0])).num_classes
    2
    >>> from_tensors(np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 1, 0]))
    Dataset(tensors, all: 4 images of 3 x 8 x 8, 2 classes)
    """
    if not (isinstance(x, Images) and isinstance(y, Images)):
        raise expected("x and y as tensors or arrays", got=f"{type(x).__name__} and {type(y).__name__}")
    x, y = torch.as_tensor(x).detach().cpu(), torch.as_tensor(y).detach().cpu()
    if y.is_floating_point() or y.dim() != 1 or len(y) != len(x):
        got = f"{y.dtype} of shape {list(y.shape)}"
        raise expected(f"y as whole numbers [{len(x)}], one class per image", got=got)
    x, y = _channels_first(x), y.to(torch.int64)
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


def _channels_first(x: Tensor) -> Tensor:
    """Images [N, H, W, C] as [N, C, H, W] if only the last axis has 1 or 3 entries; others as they are."""
    last = x.dim() == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3)
    return x.movedim(-1, 1).contiguous() if last else x


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
    """Convert a dataset, a holdfast loader, a pair (images, labels) or an iterable of batches to a dataset."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Images) for part in data):
        return from_tensors(*data)
    if isinstance(data, Loader):
        return data.dataset
    if not isinstance(data, Iterable):
        raise expected("a holdfast dataset or loader, (x, y), or a DataLoader of (x, y)", got=type(data).__name__)
    return from_loader(data)
