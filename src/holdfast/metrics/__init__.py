"""Metrics that compare two maps: batched, on the tensors' device, one number per example.

Each metric takes two batches of maps [B, H, W], as tensors or NumPy arrays, and returns a float64 tensor [B]. Metrics
that do not need the places of the pixels also take flattened maps [B, P]. The first dimension is always the batch: a
single map is passed as `map[None]`. A map that is constant, or contains NaN or infinity, has no ranking: the rank
metrics and top-k return NaN for it, never 1 or 0. The cosine and the centre shift return NaN for a map without mass.
Count such maps with `isnan`.

    top_k_intersection   |top_k(a) and top_k(b)| / k
    kendall_tau          Kendall's tau-b, ties included, O(P log P)
    spearman_rho         Pearson correlation of the average ranks
    cosine_similarity    <a, b> / (|a| |b|)
    center_shift         distance between the centres of mass, in pixels
    lens_recall          share of the top k of b within a window of the top k of a; lens_precision the other way round
    top_k_div            agreement of greedy diverse top-k sets; also lens_recall_div and lens_precision_div
    ssim                 structural similarity of the maps divided by their maximum
    pearson_r            Pearson correlation of the pixels
    mean_squared_error   of the maps divided by their maximum

`chance` has the values of random maps for the metrics that compare sets of pixels. `METRICS` lists the metrics of
rows, tables and reports; top-k-div is not among them, since its greedy sets cost k passes over the map. This package
imports `engine`. The functions are loaded on first use, so that reading the registry does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.metrics import chance
from holdfast.metrics.registry import METRICS, Metric

if TYPE_CHECKING:
    from holdfast.metrics.center import center_of_mass, center_shift
    from holdfast.metrics.cosine import cosine_similarity
    from holdfast.metrics.diverse_top_k import diverse_top_k_mask, lens_precision_div, lens_recall_div, top_k_div
    from holdfast.metrics.lens import lens_precision, lens_recall
    from holdfast.metrics.maps import has_ranking
    from holdfast.metrics.mse import mean_squared_error
    from holdfast.metrics.pearson import pearson_r
    from holdfast.metrics.rank_correlation import kendall_tau, spearman_rho
    from holdfast.metrics.structural_similarity import ssim
    from holdfast.metrics.top_k import top_k_intersection, top_k_mask

_HOMES = {
    "center_of_mass": "center",
    "center_shift": "center",
    "cosine_similarity": "cosine",
    "diverse_top_k_mask": "diverse_top_k",
    "has_ranking": "maps",
    "kendall_tau": "rank_correlation",
    "lens_precision": "lens",
    "lens_precision_div": "diverse_top_k",
    "lens_recall": "lens",
    "lens_recall_div": "diverse_top_k",
    "mean_squared_error": "mse",
    "pearson_r": "pearson",
    "spearman_rho": "rank_correlation",
    "ssim": "structural_similarity",
    "top_k_div": "diverse_top_k",
    "top_k_intersection": "top_k",
    "top_k_mask": "top_k",
}

__all__ = [
    "METRICS",
    "Metric",
    "center_of_mass",
    "center_shift",
    "chance",
    "cosine_similarity",
    "diverse_top_k_mask",
    "has_ranking",
    "kendall_tau",
    "lens_precision",
    "lens_precision_div",
    "lens_recall",
    "lens_recall_div",
    "mean_squared_error",
    "pearson_r",
    "spearman_rho",
    "ssim",
    "top_k_div",
    "top_k_intersection",
    "top_k_mask",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"holdfast.metrics.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'holdfast.metrics' has no attribute {name!r}")
