"""Flower17 from a tar of tiny JPEGs in the original layout, and the published split."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.datasets.flower17 import CLASS_NAMES, SPEC
from holdfast.data.datasets.splits import split_indices
from holdfast.data.sources.kinds import Request, RootFolder, RootNpz
from holdfast.data.subsets import stratified_indices
from holdfast.errors import DataError

Writer = Callable[[Path, dict[str, bytes]], None]
FOLDER = next(source for source in SPEC.sources if isinstance(source, RootFolder))
NPZ = next(source for source in SPEC.sources if isinstance(source, RootNpz))


def jpeg(index: int) -> bytes:
    """A flat picture whose colour tells its number."""
    buffer = io.BytesIO()
    Image.new("RGB", (16, 12), (index % 256, index // 256 * 40, 128)).save(buffer, "jpeg", quality=95)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    images = {f"jpg/image_{index + 1:04d}.jpg": jpeg(index) for index in range(1360)}
    return {"jpg/files.txt": b"image_0001.jpg\n"} | images


def test_official_archive(tmp_path: Path, tar_writer: Writer, files: dict[str, bytes]) -> None:
    tar_writer(tmp_path / "17flowers.tgz", files)
    chosen = split_indices("flower17", "test", 1360)
    for root in (tmp_path, tmp_path / "17flowers.tgz"):
        with FOLDER.open(Request(root=root)) as read:
            arrays = read("test")
        assert arrays.x.shape == (136, 3, 128, 128)
        assert arrays.y.tolist() == (chosen // 80).tolist()
        red = arrays.x[:, 0].mean(axis=(1, 2))
        assert np.abs(red - chosen % 256).max() < 4


def test_unpacked_folder(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "jpg").mkdir()
    for index in split_indices("flower17", "test", 1360):
        name = f"jpg/image_{index + 1:04d}.jpg"
        (tmp_path / name).write_bytes(files[name])
    with FOLDER.open(Request(root=tmp_path)) as read:
        assert len(read("test").y) == 136
        with pytest.raises(FileNotFoundError, match=r"image_0001\.jpg is missing"):
            read("train")


def test_decoded_arrays(tmp_path: Path) -> None:
    x = (np.arange(1360) % 251).astype(np.uint8)[:, None, None, None] + np.zeros((1, 2, 2, 3), np.uint8)
    np.savez(tmp_path / "flower17-128.npz", x=x, y=np.repeat(np.arange(17, dtype=np.uint8), 80))
    for root in (tmp_path, tmp_path / "flower17-128.npz"):
        with NPZ.open(Request(root=root)) as read:
            train, test = read("train"), read("test")
        both = np.concatenate([train.x[:, 0, 0, 0], test.x[:, 0, 0, 0]])
        assert sorted(both.tolist()) == sorted(x[:, 0, 0, 0].tolist())
    np.savez(tmp_path / "flower17-128.npz", x=x, y=np.zeros(1360, np.uint8))
    with NPZ.open(Request(root=tmp_path)) as read, pytest.raises(DataError, match="official order"):
        read("test")


def test_published_split_is_the_rule() -> None:
    y: NDArray[np.int64] = np.arange(1360) // 80
    test, train = split_indices("flower17", "test", 1360), split_indices("flower17", "train", 1360)
    np.testing.assert_array_equal(test, stratified_indices(y, 136, seed=0))
    assert np.bincount(y[test]).tolist() == [8] * 17
    assert np.bincount(y[train]).tolist() == [72] * 17
    assert sorted([*test, *train]) == list(range(1360))
    assert len(CLASS_NAMES) == 17
