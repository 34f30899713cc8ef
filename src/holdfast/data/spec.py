"""The description of a named dataset in the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.data.dataset import Dataset
from holdfast.data.sources.kinds import Source


def as_it_is(dataset: Dataset) -> Dataset:
    """Return the dataset unchanged; for specs without options."""
    return dataset


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A named dataset: its shape, its verified content, and its sources in the order in which they are tried.

    `variant` takes the loaded split and the options of the dataset (its keyword-only parameters) and returns the
    requested variant. `by_hand` tells the user how to provide the files if every source fails. `citation` and `licence`
    say, in one sentence each, who made the images and under which terms they may be used.
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
    citation: str = ""
    licence: str = ""
