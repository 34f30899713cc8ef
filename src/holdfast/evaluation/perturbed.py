"""Perturbed images that the pictures may show, kept while the rows are written, so that no attack runs twice.

Which images are pictured is known only at the end: the first few, and the three that keep least of their maps. During
the evaluation this file keeps, for every attack, the first few and the three worst so far. They are also written to
`perturbed.npz` in the run directory, before their rows, so that a resumed evaluation finds them. The file is deleted
when the pictures are written. All images of one attack are kept in memory, if the evaluation asks for them.
"""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.dataset import Dataset
from holdfast.errors import DataError
from holdfast.runs.rows import ExampleRow, packed, unpacked
from holdfast.storage.files import write_file
from holdfast.storage.npz import open_npz

FILE = "perturbed.npz"

WORST = 3
"""Number of the most damaged examples that are kept as pictures."""

Key = tuple[str, int]
"""Name of an attack, id of an example."""

_MAX_BYTES = 1 << 30


def can_be_pictured(data: Dataset) -> bool:
    """Whether images have one channel or three."""
    return data.image_shape[0] in (1, 3)


def worst_rows(rows: Iterable[ExampleRow]) -> list[ExampleRow]:
    """The three attacked rows with the smallest top-k intersection, then the smallest Kendall's tau; ties in order."""
    moved = [row for row in rows if row.outcome == "attacked"]
    return sorted(moved, key=lambda row: [row.score(metric) or 0 for metric in ("top_k", "kendall")])[:WORST]


@dataclass
class Found:
    """Rows of some examples, and the perturbed images among them that may be pictured."""

    rows: list[ExampleRow] = field(default_factory=list)
    images: dict[Key, Tensor] = field(default_factory=dict)

    def add(self, other: "Found") -> None:
        """Append the rows and images of `other`."""
        self.rows += other.rows
        self.images |= other.images

    def packed(self) -> dict[str, Any]:
        """Rows and images as JSON types, to send them to another process."""
        images = [[*key, list(image.shape), _text(image)] for key, image in self.images.items()]
        return {"rows": packed(self.rows), "images": images}

    @classmethod
    def unpacked(cls, sent: dict[str, Any]) -> "Found":
        """The inverse of `packed`."""
        images = {(attack, example): _image(text, shape) for attack, example, shape, text in sent["images"]}
        return cls(unpacked(sent["rows"]), images)


class Perturbed:
    """The perturbed images of one evaluation that may be pictured: float32 [C, H, W] on the CPU, by attack and id.

    `path` is the file that keeps them for a resumed evaluation, `rows` are the rows written before. All images of the
    attack `all_of` are kept in `every`, by id, but not in the file.
    """

    def __init__(
        self,
        subset: Dataset,
        panels: int,
        rows: Sequence[ExampleRow] = (),
        path: Path | None = None,
        *,
        all_of: str = "",
    ) -> None:
        ids = subset.ids.tolist() if panels and can_be_pictured(subset) else []
        self.first, self.wanted, self.path, self.all_of = frozenset(ids[:panels]), frozenset(ids), path, all_of
        stored = _read(path, subset.image_shape) if path is not None else {}
        written = {(row.attack, row.id) for row in rows}  # an image without a row may be that of another network
        self.images = {key: image for key, image in stored.items() if key in written}
        self.worst: dict[str, list[ExampleRow]] = {}
        self.every = {example: image for (name, example), image in self.images.items() if name == all_of}
        self._update_worst(rows)

    def candidates(self, rows: Sequence[ExampleRow], x_adv: Tensor) -> dict[Key, Tensor]:
        """The images of one batch under one attack that may be pictured, as far as this batch tells."""
        shown = {row.id for row in worst_rows(rows)} | self.first
        found = zip(rows, x_adv, strict=True)
        return {
            (r.attack, r.id): x.float().cpu()
            for r, x in found
            if r.attack == self.all_of or r.id in shown & self.wanted
        }

    def update(self, found: Found) -> None:
        """Take in new rows with their candidates; keep the images that may still be pictured, also in the file."""
        before = dict(self.images)
        self.images |= found.images
        self.every |= {example: image for (name, example), image in found.images.items() if name == self.all_of}
        for attack in self._update_worst(found.rows):
            shown = {row.id for row in self.worst[attack]} | self.first
            self.images = {key: x for key, x in self.images.items() if key[0] != attack or key[1] in shown}
        same = self.images.keys() == before.keys() and all(self.images[key] is before[key] for key in before)
        if self.path is not None and not same:
            _write(self.path, self.images)

    def delete_file(self) -> None:
        """Delete the file; the images stay in memory."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _update_worst(self, rows: Sequence[ExampleRow]) -> set[str]:
        """Update the three worst rows of each attack; returns the attacks in `rows`."""
        attacks = {row.attack for row in rows}
        for attack in attacks:
            fresh = [row for row in rows if row.attack == attack and row.id in self.wanted]
            self.worst[attack] = worst_rows([*self.worst.get(attack, ()), *fresh])
        return attacks


def _text(image: Tensor) -> str:
    return base64.b64encode(image.contiguous().numpy().tobytes()).decode()


def _image(text: str, shape: Sequence[int]) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32).reshape(tuple(shape))


def _write(path: Path, images: dict[Key, Tensor]) -> None:
    buffer = io.BytesIO()
    attacks, ids = [attack for attack, _ in images], [example for _, example in images]
    pixels = np.stack([image.numpy() for image in images.values()]) if images else np.zeros(0, np.float32)
    np.savez(buffer, attacks=np.array(attacks, dtype=np.str_), ids=np.array(ids, dtype=np.int64), images=pixels)
    write_file(path, buffer.getvalue())


def _read(path: Path, shape: tuple[int, int, int]) -> dict[Key, Tensor]:
    """The images in the file; none if it is missing or damaged, since they can be computed again."""
    try:
        with open_npz(path, max_bytes=_MAX_BYTES) as npz:
            attacks, ids, images = (npz.read(name) for name in ("attacks", "ids", "images"))
    except DataError:
        return {}
    if images.shape != (len(ids), *shape) or attacks.shape != ids.shape or images.dtype != np.float32:
        return {}
    keys = zip(attacks.tolist(), ids.tolist(), strict=True)
    return dict(zip(keys, torch.from_numpy(images), strict=True))
