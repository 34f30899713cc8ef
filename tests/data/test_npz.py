"""The user's own `.npz` files, good, odd and hostile."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import data
from holdfast.errors import DataError, InputError
from holdfast.storage.npz import open_npz

NOISE = np.random.default_rng(0)
X = NOISE.integers(0, 256, (30, 6, 5, 3), dtype=np.uint8)
Y = np.arange(30, dtype=np.uint8) % 3
SPLITS = {"x_train": X[:20], "y_train": Y[:20], "x_test": X[20:], "y_test": Y[20:]}


def write(path: Path, arrays: dict[str, Any], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=True)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_four_arrays(tmp_path: Path, compression: int) -> None:
    path = write(tmp_path / "mine.npz", SPLITS, compression)
    train, test = data.load(path), data.load(str(path), split="test")
    assert (len(train), len(test), train.image_shape, train.num_classes) == (20, 10, (3, 6, 5), 3)
    np.testing.assert_array_equal(test.x.numpy(), X[20:].transpose(0, 3, 1, 2))
    assert (test.name, test.split, test.source, test.class_names) == ("mine", "test", "npz mine.npz", ("0", "1", "2"))
    assert test.ids.tolist() == list(range(10))
    assert len({train.checksum, test.checksum}) == 2


def test_written_by_numpy(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", **SPLITS, class_names=np.array(["ant", "bee", "cow", "dog"]))
    test = data.load(tmp_path / "a.npz", split="test")
    assert test.class_names == ("ant", "bee", "cow", "dog")


def test_class_count_is_that_of_both_splits(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", SPLITS | {"y_train": Y[:20] + 4})
    assert data.load(path, split="test").num_classes == 7


def test_quantize_and_layout(tmp_path: Path) -> None:
    floats = NOISE.random((4, 3, 5, 3))
    path = write(tmp_path / "a.npz", {"x_train": floats, "y_train": Y[:4], "x_test": floats, "y_test": Y[:4]})
    with pytest.raises(DataError, match="pass layout="):
        data.load(path, quantize=True)
    with pytest.raises(DataError, match="quantize=True"):
        data.load(path, layout="NCHW")
    assert data.load(path, layout="NCHW", quantize=True).image_shape == (3, 5, 3)


def test_unsplit_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {"x": X, "y": Y})
    with pytest.raises(DataError, match=r"holdout=0\.2 .* split='all'"):
        data.load(path)
    assert len(data.load(path, split="all")) == 30
    train, test = data.load(path, holdout=0.2), data.load(path, split="test", holdout=6)
    assert np.bincount(test.y).tolist() == [2, 2, 2]
    seen = {image.tobytes() for image in train.x.numpy()} | {image.tobytes() for image in test.x.numpy()}
    assert (len(train), len(test), len(seen)) == (24, 6, 30)
    other = data.load(path, split="test", holdout=6, holdout_seed=1)
    assert not np.array_equal(other.x, test.x)
    for holdout in (0.0, 1.0, 30, -1):
        with pytest.raises(InputError, match="holdout as a fraction"):
            data.load(path, holdout=holdout)


def test_holdout_of_a_split_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no holdout"):
        data.load(write(tmp_path / "a.npz", SPLITS), holdout=0.5)


def test_missing_arrays(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found images, labels"):
        data.load(write(tmp_path / "a.npz", {"images": X, "labels": Y}))
    with pytest.raises(DataError, match="expected an array 'y_train'"):
        data.load(write(tmp_path / "b.npz", {"x_train": X}))


class Bomb:
    """What a pickle can do: run code when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path("exploded").touch, ())


def test_pickle_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evil = np.array([Bomb()], dtype=object)
    path = write(tmp_path / "a.npz", SPLITS | {"x_train": evil})
    with pytest.raises(DataError, match="need pickle"):
        data.load(path)
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match="damaged or not an"):
        data.load("b.npz")
    assert not (tmp_path / "exploded").exists()


def test_lying_header_is_refused_before_allocating(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {"x": np.zeros(100, np.uint8)})
    with zipfile.ZipFile(path) as archive:
        honest = archive.read("x.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", honest.replace(b"(100,), }" + b" " * 12, b"(99999999999999,), }" + b" "))
    with open_npz(path) as npz, pytest.raises(DataError, match="found 228"):
        npz.read("x")


def test_truncated_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", SPLITS)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="damaged"):
        data.load(path)
