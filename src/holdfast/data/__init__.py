"""Datasets: named ones from verified sources, the user's own, and batches of them."""

from holdfast.data import transforms
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.loader import Loader
from holdfast.data.loading import load
from holdfast.data.registry import names

__all__ = ["Dataset", "Loader", "load", "names", "to_float", "transforms"]
