"""Stratified subsets that are the same on every platform, by integer shares and an order by keyed hash."""

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.errors import expected
from holdfast.rng import make_keys

_STREAM = 0x5B5E75  # separates these draws from the noise of the same seed


def shares(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Number of examples per class out of `n`: proportional to `counts`, by largest remainder, ties to the lower class.

    >>> shares(np.array([5, 3, 2]), 5).tolist()
    [3, 1, 1]
    """
    total = int(counts.sum())
    parts, remainders = np.divmod(counts * n, total)
    order = np.argsort(-remainders, kind="stable")
    parts[order[: n - int(parts.sum())]] += 1
    return parts


def stratified_indices(
    y: NDArray[np.int64], n: int, seed: int, ids: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Ascending positions of `n` examples: in each class, its share with the smallest hashes of (seed, id)."""
    if not 1 <= n <= len(y):
        raise expected(f"a subset of 1 to {len(y)} examples", got=n, fix="request no more examples than the split has")
    ids = np.arange(len(y)) if ids is None else ids
    keys = make_keys(seed, torch.from_numpy(ids), _STREAM).numpy()
    order = np.lexsort((keys, y))  # class by class, by hash within the class
    counts = np.bincount(y)
    rank = np.empty(len(y), np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.flatnonzero(rank < shares(counts, n)[y])


def hold_out(y: NDArray[np.int64], holdout: float | int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Split positions into a stratified test part (a fraction, or a count if an int) and a training part."""
    whole = isinstance(holdout, int)
    count = int(holdout) if whole else round(holdout * len(y))
    if not 0 < count < len(y):
        raise expected(
            f"holdout as a fraction in (0, 1) or a count from 1 to {len(y) - 1}", got=holdout, fix="try holdout=0.2"
        )
    test = stratified_indices(y, count, seed)
    return {"test": test, "train": np.setdiff1d(np.arange(len(y)), test)}
