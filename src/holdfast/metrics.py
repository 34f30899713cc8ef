"""How much two maps agree: batched, on the tensors' device, one number an example.

Each metric takes two batches of maps, [B, P] or [B, H, W], and returns float64 [B]. A map that is constant, or holds
NaN or infinity, has no ranking: the answer of the first three is NaN, never silently 1 or 0; so is that of the last
two for a map without mass. Count them with `isnan`.

    top_k_intersection   |top_k(a) and top_k(b)| / k
    kendall_tau          Kendall's tau-b, ties included, O(P log P)
    spearman_rho         Pearson correlation of the average ranks
    cosine_similarity    <a, b> / (|a| |b|)
    center_shift         distance between the centres of mass, in pixels
"""

import torch
from torch import Tensor

from holdfast import ranks
from holdfast.errors import expected
from holdfast.ops import flatten


def top_k_intersection(a: Tensor, b: Tensor, k: int) -> Tensor:
    """Share of the k largest entries of a that are also among the k largest of b; among equals the first wins.

    >>> top_k_intersection(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[3.0, 0.0, 2.0, 1.0]]), k=2)
    tensor([0.5000], dtype=torch.float64)
    """
    a, b, valid = _prepare(a, b)
    both = top_k_mask(a, k) & top_k_mask(b, k)
    return _or_nan(both.sum(1).double() / k, valid)


def top_k_mask(a: Tensor, k: int) -> Tensor:
    """Boolean [B, P]: the k largest entries of each row; among equals the first wins, on every device."""
    a = flatten(a)
    if not 1 <= k <= a.shape[1]:
        raise expected(f"1 <= k <= {a.shape[1]}, the number of entries of a map", got=f"k = {k}")
    order = a.argsort(dim=1, descending=True, stable=True)[:, :k]
    return torch.zeros_like(a, dtype=torch.bool).scatter_(1, order, True)


def kendall_tau(a: Tensor, b: Tensor) -> Tensor:
    """Kendall's tau-b, (C - D) / sqrt((n0 - ties_a)(n0 - ties_b)), over all pairs of entries.

    The rows are ordered by (a, b); what is left out of order in b are the discordant pairs D (Knight 1966), counted
    for all rows at once: on the CPU in `ranks`, elsewhere by `count_inversions`.

    >>> kendall_tau(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 2.0, 4.0, 3.0]]))
    tensor([0.6667], dtype=torch.float64)
    """
    a, b = _same_shape(a, b)
    return _correlation(*(ranks.sign_products(a, b) if a.device.type == "cpu" else sign_products(a, b)))


def spearman_rho(a: Tensor, b: Tensor) -> Tensor:
    """Pearson correlation of the ranks, equal entries sharing their average rank.

    >>> spearman_rho(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 2.0, 4.0, 3.0]]))
    tensor([0.8000], dtype=torch.float64)
    """
    a, b = _same_shape(a, b)
    return _correlation(*(ranks.rank_products(a, b) if a.device.type == "cpu" else rank_products(a, b)))


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between the maps; NaN where one is zero everywhere or not finite.

    >>> cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071], dtype=torch.float64)
    """
    a, b = (m.double() for m in _same_shape(a, b))
    return _or_nan(
        _correlation((a * b).sum(1), a.square().sum(1), b.square().sum(1)), a.isfinite().all(1) & b.isfinite().all(1)
    )


def center_shift(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance in pixels between the centres of mass of two maps [B, H, W].

    >>> center_shift(torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]), torch.tensor([[[0.0, 0.0], [0.0, 2.0]]]))
    tensor([1.4142], dtype=torch.float64)
    """
    if a.dim() != 3 or a.shape != b.shape:
        raise expected("two maps [B, H, W] of one shape", got=f"{list(a.shape)} and {list(b.shape)}")
    return (center_of_mass(a.double()) - center_of_mass(b.double())).square().sum(1).sqrt()


def center_of_mass(a: Tensor) -> Tensor:
    """(row, column) of the centre of mass of maps [B, H, W], [B, 2]; differentiable; NaN for a map of no mass."""
    rows = torch.arange(a.shape[1], dtype=a.dtype, device=a.device)
    columns = torch.arange(a.shape[2], dtype=a.dtype, device=a.device)
    moments = torch.stack([a.sum(2) @ rows, a.sum(1) @ columns], dim=1)
    return moments / a.sum((1, 2))[:, None]


def sign_products(a: Tensor, b: Tensor) -> ranks.Products:
    """`ranks.sign_products` on any device; there the pairs in the wrong order are counted by `count_inversions`."""
    rank_a, rank_b = dense_ranks(a), dense_ranks(b)
    entries = a.shape[1]
    # Ordering by one whole number orders by (a, b), and equal numbers are joint ties.
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


def rank_products(a: Tensor, b: Tensor) -> ranks.Products:
    """`ranks.rank_products` on any device."""
    u, v = (2 * _average_ranks(m) - (m.shape[1] - 1) for m in (a, b))
    return _where_finite(a, b, (u * v).sum(1), u.square().sum(1), v.square().sum(1))


def _where_finite(a: Tensor, b: Tensor, *products: Tensor) -> ranks.Products:
    finite = a.isfinite().all(1) & b.isfinite().all(1)
    return ranks.Products(*(p.where(finite, 0) for p in products))


def dense_ranks(a: Tensor) -> Tensor:
    """Whole-number ranks from 0 without gaps, equal entries sharing one, int64 [B, P]."""
    ordered, order = a.sort(dim=1)
    steps = torch.zeros_like(order)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(order).scatter_(1, order, steps.cumsum(1))


def count_inversions(ranks: Tensor) -> Tensor:
    """Number of pairs i < j with ranks[i] > ranks[j] in each row of whole numbers [B, P] below P; int64 [B].

    A radix sort from the highest bit down, for all rows at once. When a bit is looked at, entries that agree in all
    higher bits stand together, in their old order. A pair of them is an inversion decided by this bit when a one
    stands before a zero, so each zero adds the number of ones before it in its group; then zeros move before ones.
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
    """For each entry of rows in which equal values stand together: the position at which its group starts."""
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.where(first, position, 0).cummax(1).values


def _tied_pairs(ordered: Tensor) -> Tensor:
    """Number of pairs of equal entries in each ordered row: each entry ties with those before it in its group."""
    position = torch.arange(ordered.shape[1], device=ordered.device).expand_as(ordered)
    return (position - _group_start(ordered, position)).sum(1)


def _average_ranks(a: Tensor) -> Tensor:
    """Ranks from 0, float64 [B, P], equal entries sharing the mean of the positions they take."""
    ordered, order = a.sort(dim=1)
    position = torch.arange(a.shape[1], device=a.device).expand_as(order)
    start = _group_start(ordered, position)
    size = torch.zeros_like(order).scatter_add_(1, start, torch.ones_like(order)).gather(1, start)
    average = start.double() + (size - 1).double() / 2
    return torch.empty_like(average).scatter_(1, order, average)


def _correlation(uv: Tensor, uu: Tensor, vv: Tensor) -> Tensor:
    # The root of the product, not the product of roots: sqrt(n n) is exactly n, so identical maps give exactly 1.
    return (uv.double() / (uu.double() * vv.double()).sqrt()).clamp(-1, 1)


def _same_shape(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if a.shape != b.shape or a.dim() < 2:
        raise expected("two batches of maps of one shape", got=f"{list(a.shape)} and {list(b.shape)}")
    return flatten(a.detach()), flatten(b.detach())


def has_ranking(a: Tensor) -> Tensor:
    """bool [B]: the map is finite and not constant, so its entries can be ranked."""
    a = flatten(a)
    return a.isfinite().all(1) & (a != a[:, :1]).any(1)


def _prepare(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both maps flat, and which examples have a ranking in both: finite and not constant."""
    a, b = _same_shape(a, b)
    return a, b, has_ranking(a) & has_ranking(b)


def _or_nan(value: Tensor, valid: Tensor) -> Tensor:
    return torch.where(valid, value, torch.nan)
