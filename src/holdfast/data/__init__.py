"""Datasets: named datasets from verified sources, user data, and batches. Imports `storage` and `engine`.

`datasets/` has one file per dataset, `sources/` finds and downloads the files, `formats/` reads them.
"""

from holdfast.data import transforms
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.from_torch import from_loader, from_tensors
from holdfast.data.loader import Loader
from holdfast.data.loading import load
from holdfast.data.registry import names

__all__ = ["Dataset", "Loader", "from_loader", "from_tensors", "load", "names", "to_float", "transforms"]
