"""The maps of noisy copies of an image: the sample from which all certificates of the smoothed map are computed.

Copy j of an example is x + sigma e_j with e_j ~ N(0, 1) at every entry, a hash of (key of the example, j). Pixels are
in [0, 1]; copies may leave this range. Of each copy's map only one bit per pixel is kept: whether the pixel is among
the top k. Blocks of copies are written to disk as they are done, and more copies can be added to a finished sample.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast import rng
from holdfast.attribution.saliency import map_of
from holdfast.certificates.store import Store
from holdfast.engine.modes import evaluating, frozen
from holdfast.engine.parallel import slices
from holdfast.errors import expected
from holdfast.metrics.maps import has_ranking
from holdfast.metrics.top_k import top_k_mask
from holdfast.types import Attribution, Model

BLOCK = 50
"""Copies of each image per file."""

ENTRIES_AT_ONCE = 2**23
"""Input entries of the noisy copies that are in memory at the same time."""

OnProgress = Callable[[str, int, int], None]
"""Called with (name of the measurement, number done, number in total)."""


@dataclass(frozen=True, eq=False)
class TopPixels:
    """Which pixels of each noisy copy are among the top k of its map, as packed bits [B, copies, bytes].

    A copy whose map is constant or not finite has no top pixels; `without_ranking` counts these copies, int64 [B].
    """

    bits: NDArray[np.uint8]
    pixels: int

    def counts(self, start: int, stop: int) -> Tensor:
        """Number of copies among `start` to `stop` - 1 that have the pixel in their top k, int64 [B, P]."""
        total = np.zeros((len(self.bits), self.pixels), dtype=np.int64)
        for part in slices(stop - start, BLOCK):
            some = self.bits[:, start + part.start : start + part.stop]
            total += np.unpackbits(some, axis=2, count=self.pixels).sum(1, dtype=np.int64)
        return torch.from_numpy(total)

    def hits(self, inside: Tensor) -> Tensor:
        """Number of the pixels `inside` bool [B, P] in the top k of each copy, int64 [B, copies]."""
        wanted, found = np.packbits(inside.cpu().numpy(), axis=1)[:, None], []
        for part in slices(self.copies, BLOCK):
            some = np.unpackbits(self.bits[:, part] & wanted, axis=2, count=self.pixels)
            found.append(some.sum(2, dtype=np.int64))
        return torch.from_numpy(np.concatenate(found, axis=1))

    @property
    def copies(self) -> int:
        """Number of noisy copies of each example."""
        return int(self.bits.shape[1])

    @property
    def without_ranking(self) -> Tensor:
        return torch.from_numpy((~self.bits.any(2)).sum(1))


@dataclass(frozen=True, kw_only=True)
class NoisyMaps:
    """Maps of `attribution` for noisy copies with standard deviation `sigma`, reduced to their top `k` pixels.

    >>> from holdfast.attribution import Gradient
    >>> linear = lambda x: x.flatten(1) @ torch.tensor([[1.0, -1.0], [3.0, 0.0], [2.0, 5.0]])
    >>> noisy = NoisyMaps(attribution=Gradient(), sigma=0.25, k=1)
    >>> found = noisy.draw(linear, torch.rand(2, 1, 1, 3), torch.tensor([0, 1]), keys=torch.arange(2), draws=20)
    >>> found.counts(0, 20).tolist()
    [[0, 20, 0], [0, 0, 20]]
    """

    attribution: Attribution
    sigma: float
    k: int

    def __post_init__(self) -> None:
        if not 0 < self.sigma < float("inf"):
            raise expected("sigma > 0", got=self.sigma, fix="it is a standard deviation in pixel units of [0, 1]")

    def draw(
        self,
        model: Model,
        x: Tensor,
        y: Tensor,
        *,
        keys: Tensor,
        draws: int,
        store: Store | None = None,
        name: str = "noisy-maps",
        on_progress: OnProgress | None = None,
    ) -> TopPixels:
        """The top pixels of `draws` noisy copies of each image; blocks that `store` has are not computed again."""
        store, blocks = store or Store(), []
        with evaluating(model), frozen(model):
            for number, block in enumerate(slices(draws, BLOCK)):
                size, file = block.stop - block.start, f"{name}-{number:05d}"
                bits = store.read(file)
                if bits is None or bits.shape[1] < size:
                    bits = self._block(model, x, y, keys, block)
                    store.write(file, bits)
                blocks.append(bits[:, :size])
                if on_progress:
                    on_progress(name, block.stop, draws)
        return TopPixels(np.concatenate(blocks, axis=1), pixels=x.shape[2] * x.shape[3])

    def _block(self, model: Model, x: Tensor, y: Tensor, keys: Tensor, block: slice) -> NDArray[np.uint8]:
        parts = []
        for part in slices(block.stop - block.start, max(1, ENTRIES_AT_ONCE // max(1, x.numel()))):
            numbers = torch.arange(block.start + part.start, block.start + part.stop, device=x.device)
            copies = noisy_copies(x, keys, numbers, self.sigma)
            maps = map_of(model, copies.flatten(0, 1), y.repeat_interleave(len(numbers)), self.attribution)
            top = top_k_mask(maps, self.k) & has_ranking(maps)[:, None]
            parts.append(np.packbits(top.reshape(x.shape[0], len(numbers), -1).cpu().numpy(), axis=2))
        return np.concatenate(parts, axis=1)


def noisy_copies(x: Tensor, keys: Tensor, numbers: Tensor, sigma: float) -> Tensor:
    """Copies `numbers` [n] of each image, [B, n, C, H, W]: x + sigma N(0, 1), a function of key and number alone."""
    each = rng.combine(keys[:, None], numbers).flatten()
    noise = rng.normal(each, x[:1].expand(len(each), *x.shape[1:]))
    return x[:, None] + sigma * noise.reshape(x.shape[0], len(numbers), *x.shape[1:])
