"""GTSRB from archives and folders in the original layout, written here with 43 classes of two tiny images."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.datasets.gtsrb import CLASS_NAMES, SPEC
from holdfast.data.sources.kinds import Request, RootFolder
from holdfast.errors import DataError

Writer = Callable[[Path, dict[str, bytes]], None]
HEADER = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"
SOURCE = next(source for source in SPEC.sources if isinstance(source, RootFolder))


def picture(label: int, frame: int) -> NDArray[np.uint8]:
    """40 columns, 38 rows; the region of interest, columns 3..34 and rows 4..35, is exactly 32x32."""
    noise = np.random.default_rng(100 * label + frame)
    return noise.integers(0, 256, (38, 40, 3), dtype=np.uint8)


def ppm(image: NDArray[np.uint8]) -> bytes:
    return f"P6\n{image.shape[1]} {image.shape[0]}\n255\n".encode() + image.tobytes()


def table(rows: list[tuple[str, int]]) -> bytes:
    return "\r\n".join([HEADER, *(f"{name};40;38;3;4;34;35;{label}" for name, label in rows), ""]).encode()


def train_files(base: str = "GTSRB/Final_Training/Images") -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for label in range(43):
        names = ["00000_00001.ppm", "00000_00000.ppm"]  # out of order on purpose
        files[f"{base}/{label:05d}/GT-{label:05d}.csv"] = table([(name, label) for name in names])
        files |= {f"{base}/{label:05d}/{name}": ppm(picture(label, int(name[10]))) for name in names}
    return files


def final_test_files() -> dict[str, bytes]:
    labels = [16, 1, 38]
    files = {f"GTSRB/Final_Test/Images/{n:05d}.ppm": ppm(picture(label, 7)) for n, label in enumerate(labels)}
    return files | {"GT-final_test.csv": table([(f"{n:05d}.ppm", label) for n, label in enumerate(labels)])}


def read(root: Path, split: str) -> tuple[NDArray[np.uint8], list[int]]:
    with SOURCE.open(Request(root=root)) as source:
        arrays = source(split)
    return arrays.x, arrays.y.tolist()


def check_train(root: Path) -> None:
    x, y = read(root, "train")
    assert y == [label for label in range(43) for _ in range(2)]
    expected = np.stack([picture(label, frame)[4:36, 3:35] for label in range(43) for frame in range(2)])
    np.testing.assert_array_equal(x, expected.transpose(0, 3, 1, 2))


def check_test(root: Path) -> None:
    x, y = read(root, "test")
    assert y == [16, 1, 38]
    expected = np.stack([picture(label, 7)[4:36, 3:35] for label in y])
    np.testing.assert_array_equal(x, expected.transpose(0, 3, 1, 2))


def write_folder(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


@pytest.mark.parametrize("folder", [".", "gtsrb"])
def test_official_archives(tmp_path: Path, zip_writer: Writer, folder: str) -> None:
    base = tmp_path / folder
    base.mkdir(exist_ok=True)
    zip_writer(base / "GTSRB_Final_Training_Images.zip", {"GTSRB/Readme-Images.txt": b""} | train_files())
    files = final_test_files()
    zip_writer(base / "GTSRB_Final_Test_GT.zip", {"GT-final_test.csv": files.pop("GT-final_test.csv")})
    zip_writer(base / "GTSRB_Final_Test_Images.zip", files)
    check_train(tmp_path)
    check_test(tmp_path)


@pytest.mark.parametrize("base", ["GTSRB/Final_Training/Images", "GTSRB/Training"])
def test_unpacked_folders(tmp_path: Path, base: str) -> None:
    write_folder(tmp_path / "gtsrb", train_files(base) | final_test_files())
    check_train(tmp_path)
    check_test(tmp_path)


def test_region_is_resized_by_pillow_bilinear(tmp_path: Path) -> None:
    files = final_test_files()
    files["GT-final_test.csv"] = files["GT-final_test.csv"].replace(b"0.ppm;40;38;3;4;34;35", b"0.ppm;40;38;5;6;28;20")
    write_folder(tmp_path, files)
    crop = Image.open(io.BytesIO(files["GTSRB/Final_Test/Images/00000.ppm"])).crop((5, 6, 29, 21))
    expected = np.asarray(crop.resize((32, 32), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    np.testing.assert_array_equal(read(tmp_path, "test")[0][0], expected)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"35;16", b"99;16", "expected a crop inside the 40x38 image"),
        (b"35;16", b"35;x", "expected a number in column ClassId"),
        (b"Filename;", b"Name;", "a column Filename"),
    ],
)
def test_bad_tables(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    files = final_test_files()
    files["GT-final_test.csv"] = files["GT-final_test.csv"].replace(old, new)
    write_folder(tmp_path, files)
    with pytest.raises(DataError, match=message):
        read(tmp_path, "test")


def test_wrong_class_folder(tmp_path: Path) -> None:
    files = train_files()
    name = "GTSRB/Final_Training/Images/00002/GT-00002.csv"
    write_folder(tmp_path, files | {name: files[name].replace(b"35;2", b"35;3")})
    with pytest.raises(DataError, match="expected class 2"):
        read(tmp_path, "train")


def test_broken_image(tmp_path: Path) -> None:
    files = final_test_files()
    write_folder(tmp_path, files | {"GTSRB/Final_Test/Images/00001.ppm": b"P6\n40 38\n255\nshort"})
    with pytest.raises(DataError, match=r"cannot read image GTSRB/Final_Test/Images/00001\.ppm"):
        read(tmp_path, "test")


def test_names() -> None:
    assert len(set(CLASS_NAMES)) == 43
