"""`digits`: 1,797 handwritten digits of 8x8 pixels that ship with scikit-learn (UCI optical digits, test part).

The split (1,437 training and 360 test images) is the published list `splits/digits.json`: the stratified subset of 360
images that `holdfast.data.subsets` draws with seed 0.
"""

import numpy as np

from holdfast.data.datasets.splits import split_indices
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.sources.kinds import Embedded
from holdfast.data.spec import DatasetSpec


def whole() -> Arrays:
    """All images, with grey levels v in 0..16 mapped to round(v * 255 / 16)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return make_arrays(np.rint(bunch.images * 255 / 16).astype(np.uint8), bunch.target)


def read(split: str) -> Arrays:
    """Decode one split."""
    arrays = whole()
    return arrays.take(split_indices("digits", split, len(arrays.y)))


SPEC = DatasetSpec(
    name="digits",
    image_shape=(1, 8, 8),
    class_names=tuple("0123456789"),
    counts={"train": 1437, "test": 360},
    checksums={
        "train": "f319bbc948913a4c80ad7eef309d93999e4cff15a20614c452f3a655f5f2af1a",
        "test": "ff0ec759ecdc6bccce0787204111acc772d082c20cd836ec74171419b778a838",
    },
    sources=(Embedded(name="scikit-learn", read=read),),
    by_hand="install scikit-learn, which ships the images.",
    citation="E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI repository, 1998.",
    licence="CC BY 4.0.",
    cached=False,
)
