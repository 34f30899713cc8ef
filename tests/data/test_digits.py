"""The embedded digits and their published split."""

import numpy as np
import torch

from holdfast import data
from holdfast.data.datasets.digits import SPEC, whole
from holdfast.data.datasets.splits import split_indices
from holdfast.data.subsets import stratified_indices


def test_counts_shapes_and_checksums() -> None:
    for split, count in (("train", 1437), ("test", 360)):
        digits = data.load("digits", split=split, download=False)
        assert (len(digits), digits.image_shape, digits.num_classes) == (count, (1, 8, 8), 10)
        assert digits.x.dtype == torch.uint8
        assert digits.source == "scikit-learn"
        assert digits.checksum == SPEC.checksums[split]
        assert digits.ids.tolist() == list(range(count))


def test_grey_levels() -> None:
    assert sorted(np.unique(whole().x).tolist()) == [round(v * 255 / 16) for v in range(17)]


def test_published_split_is_the_rule() -> None:
    y = whole().y
    test = split_indices("digits", "test", len(y))
    np.testing.assert_array_equal(test, stratified_indices(y, 360, seed=0))
    share = np.bincount(y[test]) / np.bincount(y)
    assert np.ptp(share) < 0.01


def test_the_last_digit_is_in_one_split_only() -> None:
    train, test = split_indices("digits", "train", 1797), split_indices("digits", "test", 1797)
    assert sorted([*train, *test]) == list(range(1797))
