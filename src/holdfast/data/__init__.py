"""Datasets: named ones from verified sources, the user's own, and batches of them. Imports `storage`.

`datasets/` has one file per dataset, `sources/` where the files come from, `formats/` how they are read.
"""

from holdfast.data import transforms
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.from_torch import from_loader, from_tensors
from holdfast.data.loader import Loader
from holdfast.data.loading import load
from holdfast.data.registry import names

__all__ = ["Dataset", "Loader", "from_loader", "from_tensors", "load", "names", "to_float", "transforms"]
