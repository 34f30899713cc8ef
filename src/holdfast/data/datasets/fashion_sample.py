"""`fashion-sample`: 300 test images of Fashion-MNIST that ship with the package, 30 per class.

They are the stratified subset that `Dataset.stratified(300, seed=0)` draws from the test images of `fashion-mnist`, and
they keep their ids. A smaller stratified subset therefore has the same images and the same random numbers whether it is
drawn from the sample or from all test images.

    python -m holdfast.data.datasets.fashion_sample FILE    # makes the file again from the whole dataset
"""

import argparse
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from holdfast.data.dataset import Dataset
from holdfast.data.datasets.mnist import FASHION_MNIST
from holdfast.data.datasets.samples import read_sample
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.sources.kinds import Embedded, Request
from holdfast.data.sources.obtain import obtain
from holdfast.data.spec import DatasetSpec
from holdfast.data.subsets import stratified_indices
from holdfast.storage.files import write_file

IMAGES, SEED = 300, 0


def read(split: str) -> Arrays:
    """Decode the shipped images."""
    sample = read_sample("fashion-mnist")
    return make_arrays(sample["x"], sample["y"], layout="NHW")


def with_original_ids(dataset: Dataset) -> Dataset:
    """Give the images their ids in the test set of `fashion-mnist`."""
    return replace(dataset, ids=torch.from_numpy(read_sample("fashion-mnist")["ids"]))


def make_sample() -> bytes:
    """The content of the shipped file, made from all test images."""
    arrays, _ = obtain(FASHION_MNIST, "test", Request())
    ids = stratified_indices(arrays.y, IMAGES, SEED)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=arrays.x[ids, 0], y=arrays.y[ids], ids=ids.astype("<i8"))
    return buffer.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `python -m holdfast.data.datasets.fashion_sample`."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.data.datasets.fashion_sample")
    parser.add_argument("file", type=Path, help="where to write the images")
    write_file(parser.parse_args(arguments).file, make_sample())


SPEC = DatasetSpec(
    name="fashion-sample",
    image_shape=FASHION_MNIST.image_shape,
    class_names=FASHION_MNIST.class_names,
    counts={"test": IMAGES},
    checksums={"test": "2e0d6caae03eebf53003e78ae46469e19517dadc4639b73a48ac97ccc3dc8278"},
    sources=(Embedded(name="holdfast", read=read),),
    by_hand="install holdfast again; the images ship with it.",
    cached=False,
    variant=with_original_ids,
    citation=FASHION_MNIST.citation,
    licence=f"{FASHION_MNIST.licence} Copyright 2017 Zalando SE.",
)

if __name__ == "__main__":
    main()
