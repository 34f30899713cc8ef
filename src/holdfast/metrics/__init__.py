"""Metrics that compare two maps: batched, on the tensors' device, one number per example.

Each metric takes two batches of maps [B, H, W], as tensors or NumPy arrays, and returns a float64 tensor [B]. Two
dimensions are one map [H, W] and give one number; flattened maps are [B, 1, P]. A map that is constant, or contains NaN
or infinity, has no ranking: the rank metrics and top-k return NaN for it, never 1 or 0. The cosine and the centre
shift return NaN for a map without mass. Count such maps with `isnan`.

    top_k_intersection   |top_k(a) and top_k(b)| / k
    kendall_tau          Kendall's tau-b, ties included, O(P log P)
    spearman_rho         Pearson correlation of the average ranks
    cosine_similarity    <a, b> / (|a| |b|)
    center_shift         distance between the centres of mass, in pixels

`METRICS` lists them for rows, tables and reports. This package imports `engine`. The functions are loaded on
first use, so that reading the registry does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.metrics.registry import METRICS, Metric

if TYPE_CHECKING:
    from holdfast.metrics.center import center_of_mass, center_shift
    from holdfast.metrics.cosine import cosine_similarity
    from holdfast.metrics.maps import has_ranking
    from holdfast.metrics.rank_correlation import kendall_tau, spearman_rho
    from holdfast.metrics.top_k import top_k_intersection, top_k_mask

_HOMES = {
    "center_of_mass": "center",
    "center_shift": "center",
    "cosine_similarity": "cosine",
    "has_ranking": "maps",
    "kendall_tau": "rank_correlation",
    "spearman_rho": "rank_correlation",
    "top_k_intersection": "top_k",
    "top_k_mask": "top_k",
}

__all__ = [
    "METRICS",
    "Metric",
    "center_of_mass",
    "center_shift",
    "cosine_similarity",
    "has_ranking",
    "kendall_tau",
    "spearman_rho",
    "top_k_intersection",
    "top_k_mask",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"holdfast.metrics.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'holdfast.metrics' has no attribute {name!r}")
