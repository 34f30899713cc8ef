"""Mirror images: every training image a second time, left and right exchanged."""

from dataclasses import replace

import torch

from holdfast.data.dataset import Dataset
from holdfast.errors import expected

FIRST_MIRRORED_ID = 1 << 48
"""The mirror image of an example has this id plus the id of the example."""


def mirror(dataset: Dataset) -> Dataset:
    """Add the mirror image of every training example.

    >>> import holdfast as hf
    >>> digits = hf.data.load("digits", split="train")
    >>> len(digits), len(mirror(digits))
    (1437, 2874)
    """
    if dataset.split == "test":
        raise expected("a training split to mirror", got="the test split", fix="evaluate on the original test images")
    return replace(
        dataset,
        x=torch.cat([dataset.x, dataset.x.flip(-1)]),
        y=torch.cat([dataset.y, dataset.y]),
        ids=torch.cat([dataset.ids, FIRST_MIRRORED_ID + dataset.ids]),
        source=f"{dataset.source} | mirror",
        file_names=dataset.file_names * 2,
    )
