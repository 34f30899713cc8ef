"""Kendall's tau-b and Spearman's rho, batched, on any device.

Both are a cosine <u, v> / (|u| |v|): Kendall's of the signs of all differences x_i - x_j, Spearman's of the centred
ranks. This file has a simple version, which runs on every device; `rank_correlation_cpu` has a faster one for maps on
the CPU. Tests compare the two with each other and with SciPy.
"""

import torch
from torch import Tensor

from holdfast.metrics import rank_correlation_cpu
from holdfast.metrics.cosine import correlation
from holdfast.metrics.maps import same_shape
from holdfast.metrics.rank_correlation_cpu import Products


def kendall_tau(a: Tensor, b: Tensor) -> Tensor:
    """Kendall's tau-b, (C - D) / sqrt((n0 - ties_a)(n0 - ties_b)), over all pairs of entries.

    The entries of each row are sorted by (a, b). The remaining inversions in b are the discordant pairs D (Knight
    1966). They are counted for all rows at once: on the CPU in `rank_correlation_cpu`, elsewhere by `count_inversions`.

    >>> kendall_tau(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 2.0, 4.0, 3.0]]))
    tensor([0.6667], dtype=torch.float64)
    """
    a, b = same_shape(a, b)
    return correlation(*(rank_correlation_cpu.sign_products(a, b) if a.device.type == "cpu" else sign_products(a, b)))


def spearman_rho(a: Tensor, b: Tensor) -> Tensor:
    """Pearson correlation of the ranks; equal entries share their average rank.

    >>> spearman_rho(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 2.0, 4.0, 3.0]]))
    tensor([0.8000], dtype=torch.float64)
    """
    a, b = same_shape(a, b)
    return correlation(*(rank_correlation_cpu.rank_products(a, b) if a.device.type == "cpu" else rank_products(a, b)))


def sign_products(a: Tensor, b: Tensor) -> Products:
    """`rank_correlation_cpu.sign_products` on any device, with the discordant pairs from `count_inversions`."""
    rank_a, rank_b = dense_ranks(a), dense_ranks(b)
    entries = a.shape[1]
    # Sorting by this integer sorts by (a, b), and equal integers are joint ties.
    joint, order = (rank_a * entries + rank_b).sort(dim=1)
    discordant = count_inversions(rank_b.gather(1, order))
    pairs = entries * (entries - 1) // 2
    ties_a, ties_b, ties_both = (
        _tied_pairs(joint // entries),
        _tied_pairs(rank_b.sort(dim=1).values),
        _tied_pairs(joint),
    )
    surplus = pairs - ties_a - ties_b + ties_both - 2 * discordant
    return _where_finite(a, b, surplus, pairs - ties_a, pairs - ties_b)


def rank_products(a: Tensor, b: Tensor) -> Products:
    """`rank_correlation_cpu.rank_products` on any device."""
    u, v = (2 * _average_ranks(m) - (m.shape[1] - 1) for m in (a, b))
    return _where_finite(a, b, (u * v).sum(1), u.square().sum(1), v.square().sum(1))


def _where_finite(a: Tensor, b: Tensor, *products: Tensor) -> Products:
    finite = a.isfinite().all(1) & b.isfinite().all(1)
    return Products(*(p.where(finite, 0) for p in products))


def dense_ranks(a: Tensor) -> Tensor:
    """Integer ranks from 0 without gaps, int64 [B, P]; equal entries share a rank."""
    ordered, order = a.sort(dim=1)
    steps = torch.zeros_like(order)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(order).scatter_(1, order, steps.cumsum(1))


def count_inversions(ranks: Tensor) -> Tensor:
    """Number of pairs i < j with ranks[i] > ranks[j] in each row of integers [B, P] below P; int64 [B].

    A radix sort from the highest bit down, for all rows at once. When a bit is processed, entries that agree in all
    higher bits form a contiguous group, in their original order. A pair in a group is an inversion decided by this bit
    if a one precedes a zero, so each zero adds the number of ones before it in its group. Then zeros move before ones.
    """
    batch, entries = ranks.shape
    total = torch.zeros(batch, dtype=torch.int64, device=ranks.device)
    position = torch.arange(entries, device=ranks.device).expand(batch, entries)
    for bit in reversed(range(max(1, (entries - 1).bit_length()))):
        ones = (ranks >> bit) & 1
        ones_before = ones.cumsum(1) - ones
        start = _group_start(ranks >> (bit + 1), position)
        ones_in_group = ones_before - ones_before.gather(1, start)
        total += ((1 - ones) * ones_in_group).sum(1)
        zeros_of_group = _zeros_of_group(ones, start)
        goal = torch.where(ones == 1, start + zeros_of_group.gather(1, start) + ones_in_group, position - ones_in_group)
        ranks = torch.empty_like(ranks).scatter_(1, goal, ranks)
    return total


def _zeros_of_group(ones: Tensor, start: Tensor) -> Tensor:
    """Number of zeros in each group, stored at the group's first position."""
    return torch.zeros_like(ones).scatter_add_(1, start, 1 - ones)


def _group_start(ordered: Tensor, position: Tensor) -> Tensor:
    """For each entry of rows in which equal values are contiguous: the position at which its group starts."""
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.where(first, position, 0).cummax(1).values


def _tied_pairs(ordered: Tensor) -> Tensor:
    """Number of pairs of equal entries in each sorted row: each entry ties with those before it in its group."""
    position = torch.arange(ordered.shape[1], device=ordered.device).expand_as(ordered)
    return (position - _group_start(ordered, position)).sum(1)


def _average_ranks(a: Tensor) -> Tensor:
    """Ranks from 0, float64 [B, P]; equal entries share the mean of their positions."""
    ordered, order = a.sort(dim=1)
    position = torch.arange(a.shape[1], device=a.device).expand_as(order)
    start = _group_start(ordered, position)
    size = torch.zeros_like(order).scatter_add_(1, start, torch.ones_like(order)).gather(1, start)
    average = start.double() + (size - 1).double() / 2
    return torch.empty_like(average).scatter_(1, order, average)
