"""Class balancing with generated examples: rotation, translation and projective warp, as in the papers' released code.

A generated example is a training image under one random map. With s the side in pixels, the map is composed of a
rotation by U(-15°, 15°) about the centre, a translation by U(-2.5, 2.5) pixels in each direction, and a projective map
that moves each coordinate of each image corner by U(-d, d), d = 0.3·s·U(0, 0.8).

Deviations from the released code:
- The three maps are composed and the image is interpolated once, not three times.
- Outside the image its edge is repeated. In the released code the translation, but no other map, fills with black.
- Values are rounded, not truncated.
- The released code uses one random state for all images in order. Here each generated example has its own id and
  depends only on (seed, id) and its original.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from holdfast.data.dataset import Dataset
from holdfast.errors import expected
from holdfast.rng import make_keys, uniform

FIRST_MADE_ID = 1 << 40
"""First id of generated examples; their ids are FIRST_MADE_ID + class · 2^24 + number within the class."""

_CLASS_STRIDE = 1 << 24
_STREAM = 0xBA1A  # separates these draws from other uses of the same seed
_MAX_ANGLE = math.radians(15)
_MAX_SHIFT = 2.5
_MAX_JITTER = 0.3 * 0.8
_CHUNK = 1 << 22


def balance(dataset: Dataset, *, to: int | None = None, seed: int = 0) -> Dataset:
    """Add generated examples until each class has `to` (default: the size of the largest class); none is removed."""
    if dataset.split == "test":
        raise expected("a training split to balance", got="the test split", fix="evaluate on the original test images")
    counts = torch.bincount(dataset.y, minlength=dataset.num_classes)
    to = int(counts.max()) if to is None else to
    if not 1 <= to < _CLASS_STRIDE or not bool((counts > 0).all()):
        raise expected("to >= 1 and at least one example of each class", got=f"to={to}, counts {counts.tolist()}")
    origins, labels, ids = _plan(dataset, counts, to)
    chunk = max(1, _CHUNK // max(1, dataset.x[:1].numel()))
    parts = [
        _make(dataset, o, i, seed) for o, i in zip(torch.split(origins, chunk), torch.split(ids, chunk), strict=True)
    ]
    return replace(
        dataset,
        x=torch.cat([dataset.x, *parts]),
        y=torch.cat([dataset.y, labels]),
        ids=torch.cat([dataset.ids, ids]),
        source=f"{dataset.source} | balance(to={to}, seed={seed})",
        file_names=(),  # generated examples have none
    )


def _plan(dataset: Dataset, counts: Tensor, to: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of the originals (used in turn, as in the released code), labels and ids of the generated examples."""
    missing = (to - counts).clamp(min=0)
    labels = torch.repeat_interleave(torch.arange(dataset.num_classes), missing)
    numbers = torch.arange(len(labels)) - torch.repeat_interleave(missing.cumsum(0) - missing, missing)
    by_class = torch.argsort(dataset.y, stable=True)
    first = counts.cumsum(0) - counts
    origins = by_class[first[labels] + numbers % counts[labels]]
    return origins, labels, FIRST_MADE_ID + labels * _CLASS_STRIDE + numbers


def _make(dataset: Dataset, origins: Tensor, ids: Tensor, seed: int) -> Tensor:
    return warp(dataset.x[origins], random_maps(make_keys(seed, ids, _STREAM), *dataset.image_shape[1:]))


def random_maps(keys: Tensor, height: int, width: int) -> Tensor:
    """One random map per key, float64 [B, 3, 3], from a pixel (x, y, 1) of the generated image to the original."""
    draws = uniform(keys, torch.empty(len(keys), 12, dtype=torch.float64), low=-1.0)
    angle, shift, size, jitter = draws[:, 0] * _MAX_ANGLE, draws[:, 1:3] * _MAX_SHIFT, draws[:, 3], draws[:, 4:]
    reach = _MAX_JITTER * min(height, width) * (size + 1) / 2  # d in the module docstring
    corners = torch.tensor([[0, 0], [0, height], [width, height], [width, 0]], dtype=torch.float64)
    moved = corners + reach[:, None, None] * jitter.reshape(-1, 4, 2)
    centre = torch.tensor([width - 1, height - 1], dtype=torch.float64) / 2
    return _rotation(angle, centre) @ _translation(-shift) @ projective(moved, corners.expand_as(moved))


def _translation(shift: Tensor) -> Tensor:
    maps = torch.eye(3, dtype=shift.dtype).repeat(len(shift), 1, 1)
    maps[:, :2, 2] = shift
    return maps


def _rotation(angle: Tensor, centre: Tensor) -> Tensor:
    maps = torch.eye(3, dtype=angle.dtype).repeat(len(angle), 1, 1)
    maps[:, 0, 0] = maps[:, 1, 1] = angle.cos()
    maps[:, 1, 0] = angle.sin()
    maps[:, 0, 1] = -angle.sin()
    back = centre.expand(len(angle), 2)
    return _translation(back) @ maps @ _translation(-back)


def projective(source: Tensor, target: Tensor) -> Tensor:
    """The maps [B, 3, 3] that take four points `source` [B, 4, 2] to `target`; each solves eight linear equations."""
    x, y = source.unbind(-1)  # [B, 4]
    u, v = target.unbind(-1)
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    for_u = torch.stack([x, y, one, zero, zero, zero, -u * x, -u * y], -1)
    for_v = torch.stack([zero, zero, zero, x, y, one, -v * x, -v * y], -1)
    solution = torch.linalg.solve(torch.cat([for_u, for_v], 1), torch.cat([u, v], 1))
    return torch.cat([solution, torch.ones_like(solution[:, :1])], 1).reshape(-1, 3, 3)


def warp(x: Tensor, maps: Tensor) -> Tensor:
    """Warp uint8 images [B, C, H, W] by `maps` [B, 3, 3], with bilinear interpolation and repeated edges."""
    height, width = x.shape[2:]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    pixels = torch.stack([columns, rows, torch.ones_like(rows)], -1).to(maps.dtype).reshape(-1, 3)
    seen = pixels @ maps.transpose(1, 2)  # [B, H·W, 3]
    seen = seen[..., :2] / seen[..., 2:]
    side = torch.tensor([width, height], dtype=maps.dtype)
    grid = ((2 * seen + 1) / side - 1).reshape(-1, height, width, 2).float()
    out = grid_sample(x.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return out.round().to(torch.uint8)
