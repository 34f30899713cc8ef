"""Noise as a pure function of a per-example key.

Results must not depend on batch size, sharding or the number of processes, so this module keeps no state. Entry p of
the noise of an example is a hash of (key of the example, p). The key is a hash of (seed, stream, example id). The hash
is the 64-bit finaliser of SplitMix64 (Steele, Lea and Flood, 2014) in wrapping int64 arithmetic, which gives the same
bits on every device.
"""

import math

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def _logical_shift(z: Tensor, bits: int) -> Tensor:
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection of 64-bit integers in which every input bit affects every output bit."""
    z = (z ^ _logical_shift(z, 30)) * _MIX_1
    z = (z ^ _logical_shift(z, 27)) * _MIX_2
    return z ^ _logical_shift(z, 31)


def combine(keys: Tensor, number: int | Tensor) -> Tensor:
    """Derive a new key from a key and a number (an epoch, a restart, a position); order matters."""
    return mix(mix(keys) + _GOLDEN + number)


def make_keys(seed: int, ids: Tensor, stream: int = 0) -> Tensor:
    """Keys [B] of the examples `ids` [B] for one seed and one stream (an epoch, a restart).

    >>> make_keys(0, torch.tensor([7])).equal(make_keys(0, torch.tensor([3, 7]))[1:])
    True
    """
    root = combine(torch.full_like(ids, seed, dtype=torch.int64), stream)
    return combine(root, ids.to(torch.int64))


def _words(keys: Tensor, like: Tensor, stream: int) -> Tensor:
    """One 64-bit word for each entry of `like` [B, ...], computed only from the key of its example."""
    entries = like[0].numel() if like.shape[0] else 0
    positions = torch.arange(entries, device=keys.device)
    return combine(combine(keys, stream)[:, None], positions).reshape(like.shape)


def uniform(keys: Tensor, like: Tensor, *, low: float = 0.0, high: float = 1.0, stream: int = 0) -> Tensor:
    """Uniform noise in [low, high) with the shape and dtype of `like` [B, ...]; 24 random bits per entry."""
    unit = _logical_shift(_words(keys, like, stream), 40).to(like.dtype) * 2.0**-24
    return low + (high - low) * unit


def normal(keys: Tensor, like: Tensor, *, stream: int = 0) -> Tensor:
    """Standard normal noise with the shape and dtype of `like` [B, ...]; Box-Muller on two uniform streams."""
    radius = (-2 * torch.log(uniform(keys, like, stream=2 * stream) + 2.0**-25)).sqrt()
    angle = 2 * math.pi * uniform(keys, like, stream=2 * stream + 1)
    return radius * torch.cos(angle)


def signs(keys: Tensor, like: Tensor, *, stream: int = 0) -> Tensor:
    """Random signs, -1 or +1 with equal probability, with the shape and dtype of `like` [B, ...]."""
    return 1 - 2 * _logical_shift(_words(keys, like, stream), 63).to(like.dtype)
