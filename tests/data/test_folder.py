"""The user's own folder of class folders."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast import data
from holdfast.errors import DataError, InputError


def picture(path: Path, value: int, *, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in ("L", "I;16") else (value, 0, 0)).save(path)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for number in range(5):
        picture(tmp_path / "pets" / "dog" / f"{number}.png", 100 + number)
        picture(tmp_path / "pets" / "cat" / f"{number}.png", number)
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "pets" / ".hidden").mkdir()
    return tmp_path / "pets"


def test_everything(pets: Path) -> None:
    whole = data.load(pets, split="all")
    assert whole.class_names == ("cat", "dog")
    assert whole.x[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert whole.y.tolist() == [0] * 5 + [1] * 5
    assert (whole.image_shape, whole.name) == ((3, 5, 6), "pets")
    assert whole.source == "folder pets (10 images, 1 other files ignored)"


def test_holdout(pets: Path) -> None:
    train, test = data.load(pets, holdout=0.2), data.load(pets, split="test", holdout=0.2)
    assert np.bincount(test.y).tolist() == [1, 1]
    assert sorted([*train.x[:, 0, 0, 0].tolist(), *test.x[:, 0, 0, 0].tolist()]) == [*range(5), *range(100, 105)]
    with pytest.raises(InputError, match=r"holdout=0\.2"):
        data.load(pets)


def test_train_and_test_folders(tmp_path: Path) -> None:
    picture(tmp_path / "train" / "b" / "deep" / "x.png", 1)
    picture(tmp_path / "train" / "a" / "x.JPG", 2)
    picture(tmp_path / "test" / "b" / "x.bmp", 3)
    train, test = data.load(tmp_path), data.load(tmp_path, split="test")
    assert (train.y.tolist(), test.y.tolist(), test.class_names) == ([0, 1], [1], ("a", "b"))
    with pytest.raises(InputError, match="'train' or 'test'"):
        data.load(tmp_path, split="all")


def test_sizes(pets: Path) -> None:
    picture(pets / "dog" / "big.png", 9, size=(12, 10))
    with pytest.raises(InputError, match=r"images of one size, got \(5, 6\) and \(10, 12\); pass size="):
        data.load(pets, split="all")
    assert data.load(pets, split="all", size=(4, 8)).image_shape == (3, 4, 8)
    assert data.load(pets, split="all", size=7).image_shape == (3, 7, 7)
    with pytest.raises(InputError, match="positive"):
        data.load(pets, split="all", size=0)


def test_grey_stays_one_channel_unless_mixed(tmp_path: Path) -> None:
    picture(tmp_path / "g" / "a" / "1.png", 50, mode="L")
    assert data.load(tmp_path / "g", split="all").image_shape == (1, 5, 6)
    picture(tmp_path / "g" / "a" / "2.png", 60)
    mixed = data.load(tmp_path / "g", split="all")
    assert mixed.x[:, :, 0, 0].tolist() == [[50, 50, 50], [60, 0, 0]]


def test_bad_images(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "deep.png", 5000, mode="I;16")
    with pytest.raises(DataError, match=r"8-bit image, found deep\.png of mode I;16"):
        data.load(tmp_path, split="all")
    (tmp_path / "a" / "deep.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"cannot read image deep\.png"):
        data.load(tmp_path, split="all")


def test_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder for each class"):
        data.load(tmp_path, split="all")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match=r"expected images \(\.png"):
        data.load(tmp_path, split="all")
