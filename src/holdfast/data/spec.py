"""What the registry knows of a dataset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.data.dataset import Dataset
from holdfast.data.sources.kinds import Source


def as_it_is(dataset: Dataset) -> Dataset:
    """The dataset: for specs without options."""
    return dataset


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A named dataset: its shape, its verified content, and the sources in the order they are tried.

    `variant` takes the loaded split and the dataset's own options (its keyword-only parameters) and returns the variant
    asked for; `by_hand` tells the user how to supply the files when no source answers.
    """

    name: str
    image_shape: tuple[int, int, int]  # channels, height, width
    class_names: tuple[str, ...]
    counts: Mapping[str, int]
    checksums: Mapping[str, str]
    sources: tuple[Source, ...]
    by_hand: str
    cached: bool = True
    variant: Callable[..., Dataset] = as_it_is
