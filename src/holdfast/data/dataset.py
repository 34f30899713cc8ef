"""One split of a dataset in memory. Pixels stay uint8 until they are on the device."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.data.formats.arrays import Arrays
from holdfast.data.subsets import stratified_indices
from holdfast.errors import expected

Indices = Tensor | list[int] | range


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Dataset:
    """Images with labels, stable ids and their origin.

    `checksum` is the content checksum of the whole decoded split, before any subset or transform. `source` names the
    transforms. Together with `ids`, the two identify the pixels exactly. Images that a command has resized or converted
    have the checksum of their own pixels. `notes` say what a reader of results should know, such as the files that
    could not be read. `file_names` is the name of each image's file, for reports; it is empty if there are none.
    """

    x: Tensor  # uint8 [N, C, H, W], or float32 in [0, 1]
    y: Tensor  # int64 [N]
    ids: Tensor  # int64 [N], the index in the full split
    name: str
    split: str
    class_names: tuple[str, ...]
    source: str
    checksum: str
    notes: tuple[str, ...] = ()
    file_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.x.dtype not in (torch.uint8, torch.float32) or self.x.dim() != 4:
            got = f"{self.x.dtype} {tuple(self.x.shape)}"
            raise expected("x as uint8 [N, C, H, W], or float32 with pixels in [0, 1]", got=got)
        if self.x.dtype == torch.float32 and self.x.numel() and not (self.x.min() >= 0 and self.x.max() <= 1):
            got = f"[{float(self.x.min()):g}, {float(self.x.max()):g}]"
            raise expected("float pixels in [0, 1]", got=got, fix="divide by 255; normalise inside the model")
        for field, value in (("y", self.y), ("ids", self.ids)):
            if value.dtype != torch.int64 or value.shape != self.x.shape[:1]:
                raise expected(f"{field} as int64 [{len(self.x)}]", got=f"{value.dtype} {tuple(value.shape)}")
        if self.file_names and len(self.file_names) != len(self.x):
            raise expected(f"{len(self.x)} file names, or none", got=len(self.file_names))
        if len(self.y) and not (self.y.min() >= 0 and self.y.max() < self.num_classes):
            raise expected(
                f"labels 0 to {self.num_classes - 1} for {self.num_classes} class names",
                got=f"{self.y.min()} to {self.y.max()}",
            )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        size = " x ".join(str(n) for n in self.image_shape)
        return f"Dataset({self.name}, {self.split}: {len(self):,} images of {size}, {self.num_classes} classes)"

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without an example here."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.x.shape[1:]
        return channels, height, width

    def subset(self, indices: Indices) -> "Dataset":
        """The examples at `indices` (positions, not ids), in that order. They keep their ids."""
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(self)):
            raise expected(f"indices from 0 to {len(self) - 1}", got=f"{chosen.min()} to {chosen.max()}")
        names = tuple(self.file_names[at] for at in chosen.tolist()) if self.file_names else ()
        return replace(self, x=self.x[chosen], y=self.y[chosen], ids=self.ids[chosen], file_names=names)

    def stratified(self, n: int, seed: int = 0) -> "Dataset":
        """Stratified subset of `n` examples, chosen by hash of (seed, id), so it is the same on every platform."""
        indices = stratified_indices(self.y.numpy(), n, seed, self.ids.numpy())
        return self.subset(torch.from_numpy(indices))


def make_dataset(
    arrays: Arrays,
    *,
    name: str,
    split: str,
    class_names: tuple[str, ...],
    source: str,
    checksum: str = "",
    notes: tuple[str, ...] = (),
    file_names: tuple[str, ...] = (),
) -> Dataset:
    """Wrap decoded arrays without copying. Ids count from 0; the checksum is computed unless given."""
    return Dataset(
        x=torch.from_numpy(arrays.x),
        y=torch.from_numpy(arrays.y),
        ids=torch.arange(len(arrays.y)),
        name=name,
        split=split,
        class_names=class_names,
        source=source,
        checksum=checksum or arrays.checksum(),
        notes=notes,
        file_names=file_names,
    )


def to_float(x: Tensor, device: torch.device | str | None = None) -> Tensor:
    """Convert uint8 pixels 0..255 to float32 in [0, 1].

    The bytes are moved to the device and scaled there. Float32 pixels are only moved.

    >>> to_float(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist()
    [0.0, 0.20000000298023224, 1.0]
    """
    if x.dtype == torch.float32:
        return x.to(device, non_blocking=True)
    if x.dtype != torch.uint8:
        raise expected("uint8 or float32 pixels", got=x.dtype, fix="convert them with .float() or .to(torch.uint8)")
    return x.to(device, non_blocking=True).to(torch.float32).div_(255)
