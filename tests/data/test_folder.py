"""The user's own folder of class folders."""

import struct
import zlib
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
    assert whole.file_names == tuple(f"{pet}/{number}.png" for pet in ("cat", "dog") for number in range(5))
    assert whole.subset([7, 0]).file_names == ("dog/2.png", "cat/0.png")


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


def test_damaged_files_are_counted_and_named(pets: Path) -> None:
    cut = (pets / "cat" / "3.png").read_bytes()
    (pets / "cat" / "3.png").write_bytes(cut[: len(cut) // 2])  # a header, but no pixels
    (pets / "dog" / "1.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="cannot read image"):
        data.load(pets, split="all")
    found = data.load(pets, split="all", skip_unreadable=True)
    assert found.x[:, 0, 0, 0].tolist() == [0, 1, 2, 4, 100, 102, 103, 104]
    assert found.y.tolist() == [0] * 4 + [1] * 4
    assert found.file_names[3:5] == ("cat/4.png", "dog/0.png")
    assert found.notes == ("2 of 10 image files cannot be read and are left out: cat/3.png, dog/1.png",)
    assert found.source == "folder pets (8 images, 1 other files ignored, 2 unreadable)"
    for path in pets.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot read image 0\.png"):
        data.load(pets, split="all", skip_unreadable=True)


def test_deep_images_are_not_skipped(tmp_path: Path) -> None:
    """16 bits may be a window of 12: nobody but the user knows the range."""
    picture(tmp_path / "a" / "deep.png", 5000, mode="I;16")
    with pytest.raises(DataError, match="convert it to 8 bits"):
        data.load(tmp_path, split="all", skip_unreadable=True)


@pytest.mark.parametrize(("kind", "channels"), [(2, 3), (6, 4), (4, 2)], ids=["RGB", "RGBA", "grey with alpha"])
def test_deep_colours_are_refused_as_deep_grey_is(tmp_path: Path, kind: int, channels: int) -> None:
    """Pillow opens them as 8-bit images and drops the lower byte."""
    header = struct.pack(">IIBBBBB", 2, 2, 16, kind, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x12\x34" * 2 * channels) * 2)
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    parts = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "deep.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    with pytest.raises(DataError, match=r"8-bit image, found deep\.png of mode RGBA?;16; convert it to 8 bits per ch"):
        data.load(tmp_path, split="all", skip_unreadable=True)


def test_deep_colours_of_a_tiff_are_refused(tmp_path: Path) -> None:
    tags = [(256, 1, 2), (257, 1, 2), (258, 3, 122), (259, 1, 1), (262, 1, 2), (273, 1, 128), (277, 1, 3)]
    tags += [(278, 1, 2), (279, 1, 24)]  # 2 x 2 pixels of three times 16 bits, in one strip behind the table
    table = b"".join(struct.pack("<HHIHH", tag, 3, count, value, 0) for tag, count, value in tags)
    whole = b"II*\0" + struct.pack("<IH", 8, len(tags)) + table + bytes(4) + struct.pack("<HHH", 16, 16, 16) + bytes(24)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "deep.tiff").write_bytes(whole)
    with pytest.raises(DataError, match=r"found deep\.tiff of mode RGB;16"):
        data.load(tmp_path, split="all")


def test_images_that_are_squeezed_are_noted(tmp_path: Path) -> None:
    for name, size in {"square": (9, 9), "wide": (18, 9), "nearly": (200, 199)}.items():
        picture(tmp_path / "a" / f"{name}.png", 1, size=size)
    picture(tmp_path / "b" / "tall.png", 1, size=(9, 27))
    (note,) = data.load(tmp_path, split="all", size=6).notes
    assert note.startswith(
        "2 of 4 images have other proportions than 6 x 6 and are squeezed or stretched to it; a crop"
    )
    assert data.load(tmp_path, split="all", size=6, crop=6).notes == ()
    with pytest.raises(InputError, match=r"images of one size, .*; pass size=N, crop=N to scale them"):
        data.load(tmp_path, split="all")


def test_size_and_crop_keep_the_proportions(tmp_path: Path) -> None:
    """A picture of 40 x 80, left half black and right half white: the crop is the middle, half of each."""
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 40:] = 255
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / "wide.png")
    Image.fromarray(pixels.transpose(1, 0, 2)).save(tmp_path / "a" / "tall.png")
    found = data.load(tmp_path, split="all", size=20, crop=16)
    assert found.image_shape == (3, 16, 16)
    tall, wide = found.x[0, 0], found.x[1, 0]
    halves = [False] * 8 + [True] * 8
    assert (wide[0] > 127).tolist() == halves
    assert (tall[:, 0] > 127).tolist() == halves
    assert data.load(tmp_path, split="all", crop=(8, 40)).image_shape == (3, 8, 40)
    for options, message in (
        ({"crop": 64}, r"images of at least 64 x 64, the crop, got tall\.png of 80 x 40; pass size=N"),
        ({"size": 8, "crop": 16}, "crop <= size"),
        ({"size": 8, "resample": "magic"}, "resample to be one of nearest"),
    ):
        with pytest.raises(InputError, match=message):
            data.load(tmp_path, split="all", **options)


# ---- a flat folder with labels.csv ----


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    for number in range(4):
        picture(tmp_path / "flat" / f"{number}.png", number)
    return tmp_path / "flat"


@pytest.mark.parametrize(
    ("table", "labels", "names"),
    [
        ("file,label\n2.png,dog\n0.png,cat\n", [(2, 1), (0, 0)], ("cat", "dog")),
        ("0.png,cat\n1.png,dog\n", [(0, 0), (1, 1)], ("cat", "dog")),
        ("id;label\n0;dog\n1;ant\n", [(0, 1), (1, 0)], ("ant", "dog")),
        ("score,class,filename\n9,b,./3.png\n8,a,1.png\n", [(3, 1), (1, 0)], ("a", "b")),
        ("\ufefffile,label\n0.png,4\n1.png,2\n", [(0, 4), (1, 2)], ("0", "1", "2", "3", "4")),
    ],
)
def test_labels_in_a_table(flat: Path, table: str, labels: list, names: tuple) -> None:
    (flat / "labels.csv").write_text(table, encoding="utf-8")
    found = data.load(flat, split="all")
    assert list(zip(found.x[:, 0, 0, 0].tolist(), found.y.tolist(), strict=True)) == labels
    assert found.class_names == names
    assert found.notes == ("2 images are not in labels.csv and are left out",)


def test_holdout_of_a_table(flat: Path) -> None:
    (flat / "labels.csv").write_text("".join(f"{n}.png,{'ab'[n % 2]}\n" for n in range(4)))
    assert len(data.load(flat, split="test", holdout=2)) == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "rows of file and label in .*labels.csv, found none"),
        ("file,label\n", "found none; write for example"),
        ("file,label\n7.png,cat\n8.png,cat\n", r"found no 7\.png, 8\.png \(2 missing\)"),
        ("file,label\n../secret.png,cat\n", r"found no \.\./secret\.png"),
        ("file,label\n0.png\n", "a row 1 without both"),
        ("file,label\n0.png,cat\n0.png,dog\n", r"every file once in .* found 0\.png again"),
        ("file,label\n0.png,\n", "an empty one in row 1"),
    ],
)
def test_bad_tables(flat: Path, table: str, message: str) -> None:
    picture(flat.parent / "secret.png", 1)
    (flat / "labels.csv").write_text(table)
    with pytest.raises(DataError, match=message):
        data.load(flat, split="all")
    (flat / "labels.csv").write_bytes(b"\xff\xfe\x00file")
    with pytest.raises(DataError, match="save it as UTF-8"):
        data.load(flat, split="all")


def test_a_flat_folder_without_a_table(flat: Path) -> None:
    with pytest.raises(DataError, match=r"found none; sort the images .* or add a table labels\.csv"):
        data.load(flat, split="all")


def test_some_empty_class_folders_are_noted(pets: Path) -> None:
    (pets / "bird").mkdir()
    found = data.load(pets, split="all")
    assert found.class_names == ("bird", "cat", "dog")  # a class without images keeps its place
    assert found.y.unique().tolist() == [1, 2]
    assert found.notes == ("1 of 3 class folders has no images: bird",)


def test_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder for each class"):
        data.load(tmp_path, split="all")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match=r"expected images \(\.png"):
        data.load(tmp_path, split="all")
