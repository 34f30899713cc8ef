"""The images of Fashion-MNIST that ship with the package."""

from pathlib import Path

import numpy as np
import pytest

from holdfast import data
from holdfast.data.datasets import fashion_sample
from holdfast.data.datasets.samples import read_sample
from holdfast.errors import DataError, InputError
from holdfast.storage.npz import open_npz


def whole() -> data.Dataset:
    try:
        return data.load("fashion-mnist", split="test", download=False)
    except DataError:
        pytest.skip("fashion-mnist is not on this machine")


def test_thirty_images_per_class_without_a_download() -> None:
    sample = data.load("fashion-sample", split="test", download=False)
    assert (len(sample), sample.image_shape, sample.source) == (300, (1, 28, 28), "holdfast")
    assert np.bincount(sample.y).tolist() == [30] * 10
    assert sample.checksum == fashion_sample.SPEC.checksums["test"]
    assert sample.class_names[9] == "Ankle boot"


def test_they_are_the_stratified_subset_of_all_test_images() -> None:
    sample, expected = data.load("fashion-sample", split="test"), whole().stratified(300, seed=0)
    for part in ("x", "y", "ids"):
        assert getattr(sample, part).equal(getattr(expected, part)), part


def test_a_smaller_subset_is_that_of_all_test_images() -> None:
    sample = data.load("fashion-sample", split="test")
    assert sample.stratified(24, seed=0).ids.equal(whole().stratified(24, seed=0).ids)


def test_the_script_makes_the_shipped_file(tmp_path: Path) -> None:
    whole()
    fashion_sample.main([str(tmp_path / "again.npz")])
    with open_npz(tmp_path / "again.npz") as npz:
        for name, shipped in read_sample("fashion-mnist").items():
            made = npz.read(name)
            assert made.dtype == shipped.dtype
            np.testing.assert_array_equal(made, shipped)


def test_there_is_no_training_split() -> None:
    with pytest.raises(InputError, match="split to be one of test"):
        data.load("fashion-sample", split="train")


def test_the_licence_is_beside_the_images() -> None:
    text = (Path(fashion_sample.__file__).parent / "samples" / "LICENSE-fashion-mnist.txt").read_text()
    assert "Copyright © 2017 Zalando SE" in text
    assert "shall be included in all copies" in text
