"""Kendall's and Spearman's inner products for maps on the CPU, where NumPy sorts with vector instructions.

Both correlations are a cosine <u, v> / (|u| |v|): Kendall's of the signs of all differences x_i - x_j, Spearman's of
the centred ranks. `sign_products` and `rank_products` return the three inner products (uv, uu, vv) of each row as
integers, so that the result does not depend on how the rows are batched. All three are 0 if a map contains NaN or
infinity. If a map is constant, uv is 0 and so is its own product, uu or vv.

Three optimisations make it fast. A value and its position are sorted as one int64, which NumPy sorts many times faster
than torch sorts with indices. Positions where both maps are exactly zero are not sorted: their contribution follows
from the signs of the other entries. Inversions are counted by halving a permutation, not by merging.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.engine.threads import shared_pool

Whole: TypeAlias = NDArray[Any]  # int32 or int64
Flags: TypeAlias = NDArray[np.bool_]

LOW_32 = (1 << 32) - 1
AT_A_TIME = 1 << 17  # entries per block of rows: its arrays stay in the second-level cache
AT_A_TIME_OF_TWO = 1 << 15  # the same if two threads each compute a block
LONG_ROW = 1 << 13  # entries; from this length on, two threads each compute a block
WORKER = "holdfast-blocks"  # prefix of the names of these threads
WORTH_A_THREAD = 1 << 15  # entries; below this a second thread does not save time
COMPARED_DIRECTLY = 64  # entries; below this, comparing all pairs is as fast as another halving


class Products(NamedTuple):
    """The inner products uv, uu and vv of each row, [B]."""

    uv: Tensor
    uu: Tensor
    vv: Tensor


def sign_products(a: Tensor, b: Tensor) -> Products:
    """Sums over all pairs i < j of sign(a_i - a_j) sign(b_i - b_j), and of the square of each factor.

    >>> [p.item() for p in sign_products(torch.tensor([[1.0, 2, 2]]), torch.tensor([[1.0, 2, 0]]))]
    [0, 2, 3]
    """
    return _some_rows_at_a_time(_sign_products, a, b)


def rank_products(a: Tensor, b: Tensor) -> Products:
    """Sums over all entries of the product of the centred average ranks (doubled, hence integers) and of their squares.

    >>> [p.item() for p in rank_products(torch.tensor([[1.0, 2, 2]]), torch.tensor([[1.0, 2, 0]]))]
    [0, 6, 8]
    """
    return _some_rows_at_a_time(_rank_products, a, b)


class _Pair(NamedTuple):
    """Two batches of keys [B, P], without `dropped` entries that are zero in both, and their sorted versions.

    `by_x.order` holds, for each entry in the order of x, its position in the order of y; equal x are in the order of y.
    """

    x: Whole
    y: Whole
    dropped: int
    by_x: "_Sorted"
    by_y: "_Sorted"


def _some_rows_at_a_time(products: Callable[[_Pair], tuple[Whole, ...]], a: Tensor, b: Tensor) -> Products:
    """Compute the products for a block of rows at a time; blocks of long rows are smaller and run in two threads."""
    two = a.shape[1] >= LONG_ROW and len(a) > 1 and torch.get_num_threads() > 1
    rows = max(1, (AT_A_TIME_OF_TWO if two else AT_A_TIME) // max(1, a.shape[1]))
    blocks = a.split(rows), b.split(rows)
    of_block = partial(_of_rows, products)
    found = shared_pool(WORKER, 2).map(of_block, *blocks) if two else map(of_block, *blocks)
    return Products(*map(torch.cat, zip(*found, strict=True)))


def _of_rows(products: Callable[[_Pair], tuple[Whole, ...]], a: Tensor, b: Tensor) -> list[Tensor]:
    x, y, dropped = _without_common_zeros(ordered_keys(a), ordered_keys(b))
    by_y = _Sorted.of(y)
    by_x = _Sorted.of(x.take(by_y.order))
    finite = by_x.finite(a.dtype) & by_y.finite(b.dtype)
    return [torch.from_numpy(p * finite) for p in products(_Pair(x, y, dropped, by_x, by_y))]


def _sign_products(pair: _Pair) -> tuple[Whole, ...]:
    x, y, dropped, by_x, by_y = pair
    entries = x.shape[1]
    pairs = entries * (entries - 1) // 2
    tied_x, tied_y, tied_both = _tied_pairs(by_x.first), _tied_pairs(by_y.first), _order_ties(by_x, by_y)
    discordant = count_inversions(by_x.order - entries * np.arange(len(x))[:, None])
    kept = pairs - tied_x - tied_y + tied_both - 2 * discordant, pairs - tied_x, pairs - tied_y
    if not dropped:
        return kept
    # A dropped entry is zero in both, so its differences to the other entries have the signs of these entries.
    signs = _products(np.sign(x).astype(np.int8), np.sign(y).astype(np.int8))
    return tuple(k + dropped * s for k, s in zip(kept, signs, strict=True))


def _rank_products(pair: _Pair) -> tuple[Whole, ...]:
    x, y, dropped, by_x, by_y = pair
    kept = _products(by_x.centred_ranks(dropped), by_y.centred_ranks(dropped).take(by_x.order))
    if not dropped:
        return kept
    # The doubled centred rank of a zero is the number of entries below it minus the number above.
    zeros = _products(-np.sign(x).sum(1, keepdims=True), -np.sign(y).sum(1, keepdims=True))
    return tuple(k + dropped * z for k, z in zip(kept, zeros, strict=True))


def ordered_keys(a: Tensor) -> Whole:
    """Integers with the order and signs of the entries of a, 0 for both zeros; int32 if it can hold all values.

    The bits of a float are sign and magnitude, and magnitudes are ordered like integers.
    """
    if a.dtype in (torch.float16, torch.bfloat16):
        a = a.float()
    if not a.is_floating_point():
        return a.to(torch.int32 if a.dtype.itemsize < 4 else torch.int64).numpy()
    width = 8 * a.dtype.itemsize
    bits: Whole = a.contiguous().numpy().view(f"int{width}")
    sign = bits >> (width - 1)  # -1 or 0; branch-free, because branches are slow for random signs
    keys: Whole = ((bits & ((1 << (width - 1)) - 1)) ^ sign) - sign
    return keys


def count_inversions(places: Whole) -> Whole:
    """Number of pairs i < j with places[i] > places[j] in each row, a permutation of 0 .. P - 1; int64 [B].

    Split the entries into the lower and the higher half of the values, each in its original order. The k-th low entry
    (from 0) is preceded by k low ones, so its position minus k is the number of high ones before it. The sum of the
    positions of the low half therefore gives all inversions between the halves. The inversions inside the halves are
    counted in the same way, for all halves at once, until the halves are short.
    """
    batch, entries = places.shape
    halvings = max(0, (entries - 1) // COMPARED_DIRECTLY).bit_length()
    size = -(-entries >> halvings) << halvings
    groups = np.empty((batch, size), dtype=np.int16 if size < 1 << 15 else np.int32)
    groups[:, :entries] = places
    groups[:, entries:] = np.arange(entries, size)  # ascending padding adds no inversions
    total = np.zeros(batch, dtype=np.int64)
    for halving in range(halvings):  # group g belongs to row g % batch
        size //= 2
        low = groups < size
        halves = np.empty((2, groups.size // 2), dtype=groups.dtype)
        low_at, _ = _at_once(low.size, partial(_pick, groups, low, halves[0]), partial(_pick, groups, ~low, halves[1]))
        low_goal = 2 * size * np.arange(len(groups)) * size + size * (size - 1) // 2
        total += (low_at.reshape(-1, size).sum(1) - low_goal).reshape(1 << halving, batch).sum(0)
        halves[1] -= size
        groups = halves.reshape(-1, size)
    total += _compare_all_pairs(groups.astype(np.uint8).T).reshape(1 << halvings, batch).sum(0)
    return total


def _pick(values: Whole, chosen: Flags, out: Whole) -> Whole:
    """Copy the chosen values into `out`; return their positions in the flattened array."""
    places = np.flatnonzero(chosen)
    values.take(places, out=out, mode="clip")  # all positions are valid; mode "clip" needs no second buffer
    return places


def _compare_all_pairs(columns: NDArray[np.uint8]) -> Whole:
    """Inversions of each of N columns [P, N], P <= 256; in this layout each comparison runs over long rows."""
    columns = np.ascontiguousarray(columns)
    larger_before = np.zeros_like(columns)
    larger = np.empty(columns.shape, dtype=np.bool_)
    for step in range(1, len(columns)):
        np.greater(columns[:-step], columns[step:], out=larger[step:])
        larger_before[step:] += larger[step:].view(np.uint8)
    inversions: Whole = larger_before.sum(0, dtype=np.int64)
    return inversions


class _Sorted(NamedTuple):
    """Sorted rows: values, original positions in the flattened batch, and flags for the first entry of each value."""

    values: Whole
    order: Whole
    first: Flags

    @classmethod
    def of(cls, keys: Whole) -> "_Sorted":
        if keys.dtype == np.int32:
            values, order = _sort_32_bits(keys)
        else:  # sort by the low half, then by the high half: the second sort is stable
            order = _sort_32_bits((keys & LOW_32) - (1 << 31))[1]
            order = order.take(_sort_32_bits(keys.take(order) >> 32)[1])
            values = keys.take(order)
        first = np.ones(keys.shape, dtype=np.bool_)
        np.not_equal(values[:, 1:], values[:, :-1], out=first[:, 1:])
        return cls(values, order, first)

    def finite(self, dtype: torch.dtype) -> Flags:
        """bool [B]: whether the rows (keys of `dtype` numbers) contain no infinity or NaN; both ends are checked."""
        if not dtype.is_floating_point:
            return np.ones(len(self.values), dtype=np.bool_)
        infinity = ordered_keys(torch.tensor([torch.inf], dtype=dtype))
        inside: Flags = np.all((self.values[:, :1] > -infinity) & (self.values[:, -1:] < infinity), axis=1)
        return inside

    def centred_ranks(self, dropped: int) -> Whole:
        """2 (average rank - mean of all ranks), as if each row had `dropped` more zeros."""
        batch, entries = self.first.shape
        start = np.flatnonzero(self.first)
        size = np.diff(start, append=self.first.size)
        doubled = (2 * start + size).take(np.cumsum(self.first) - 1).reshape(batch, entries)
        centred: Whole = doubled - entries * (2 * np.arange(batch)[:, None] + 1)
        if dropped:
            centred += dropped * np.sign(self.values)
        return centred


def _sort_32_bits(keys: Whole) -> tuple[Whole, Whole]:
    """Stable sort of rows of 32-bit numbers: sorted values and their positions in the flattened batch."""
    packed = keys.astype(np.int64)
    packed <<= 32
    packed |= np.arange(keys.size).reshape(keys.shape)
    half = len(packed) // 2
    _at_once(packed.size, partial(packed[:half].sort, axis=1), partial(packed[half:].sort, axis=1))
    order = packed & LOW_32
    packed >>= 32
    return packed, order


def _order_ties(by_x: _Sorted, by_y: _Sorted) -> Whole:
    """Reorder the positions of entries that tie in y so that they increase with x; count pairs per row tied in both."""
    tied = ~by_y.first
    tied[:, :-1] |= tied[:, 1:]
    # Zeros form one group per row, usually by far the largest; their positions are already in order.
    zero = tied & (by_y.values == 0)
    y_zeros, x_zeros = np.flatnonzero(zero), np.flatnonzero(zero.take(by_x.order))
    tied ^= zero
    y_others = np.flatnonzero(tied)
    x_others = _sorted_by_group(np.flatnonzero(tied.take(by_x.order)), y_others, by_x.order, by_y.first)
    y_places, x_places = np.concatenate([y_zeros, y_others]), np.concatenate([x_zeros, x_others])
    np.put(by_x.order, x_places, y_places)
    first = by_y.first.take(y_places)
    value = by_x.values.take(x_places)
    first[1:] |= value[1:] != value[:-1]
    return _tied_pairs(first, y_places, tied.shape)


def _sorted_by_group(x_places: Whole, y_places: Whole, order: Whole, y_first: Flags) -> Whole:
    """Positions in x of entries that tie in y, group after group, each group in the order of x."""
    group = np.cumsum(y_first.take(y_places))
    packed: Whole = group.take(np.searchsorted(y_places, order.take(x_places)))
    packed <<= 32
    packed |= x_places
    packed.sort()
    return packed & LOW_32


def _tied_pairs(first: Flags, places: Whole | None = None, shape: tuple[int, ...] | None = None) -> Whole:
    """Pairs of equal entries in each sorted row, from the entries that are not the first of their value."""
    batch, entries = shape or first.shape
    again = np.flatnonzero(~first)
    start = np.flatnonzero(np.diff(again, prepend=-2) != 1)
    others = np.diff(start, append=again.size)  # entries per group, without the first
    at = again.take(start)
    row = (at if places is None else places.take(at)) // max(1, entries)
    return np.bincount(row, weights=others * (others + 1) // 2, minlength=batch).astype(np.int64)


def _without_common_zeros(x: Whole, y: Whole) -> tuple[Whole, Whole, int]:
    """x and y without the largest number of common zeros that can be dropped from every row, and that number."""
    batch, entries = x.shape
    kept = (x != 0) | (y != 0)
    count = kept.sum(1, keepdims=True)
    most = int(count.max(initial=1))
    if 8 * most > 7 * entries:  # the selection costs more than it saves
        return x, y, 0
    zeros = np.cumsum(~kept, axis=1, dtype=np.int32)
    kept |= zeros <= most - count  # a row with fewer other entries keeps its first zeros
    source = np.flatnonzero(kept).reshape(batch, most)
    return x.take(source), y.take(source), entries - most


def _at_once(entries: int, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Results of both functions, run in parallel if torch may use two threads; NumPy releases the GIL.

    Only long calls run in parallel. With whole blocks of short rows in separate threads, the GIL would change hands
    between hundreds of short calls, and the threads would wait for it longer than they compute.
    """
    in_block = threading.current_thread().name.startswith(WORKER)  # the other thread has a block of its own
    if in_block or torch.get_num_threads() == 1 or entries < WORTH_A_THREAD:
        return first(), second()
    other = shared_pool("holdfast-ranks", 1).submit(second)
    return first(), other.result()


def _products(u: Whole, v: Whole) -> tuple[Whole, Whole, Whole]:
    return (u * v).sum(1, dtype=np.int64), (u * u).sum(1, dtype=np.int64), (v * v).sum(1, dtype=np.int64)
