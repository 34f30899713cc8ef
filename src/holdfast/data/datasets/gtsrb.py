"""`gtsrb`: German Traffic Sign Recognition Benchmark, 43 classes, final training set and final test set.

Each image is cropped to its annotated region (both corner pixels included) and resized to 32x32 by Pillow's BILINEAR.
Training images are ordered by class, track and frame; test images are in the published order.

J. Stallkamp, M. Schlipsing, J. Salmen, C. Igel: Man vs. computer, Neural Networks 32, 2012.
"""

import csv
import io
import itertools

import numpy as np

from holdfast.data.formats.archives import Reader
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.formats.images import decode as decode_image
from holdfast.data.sources.kinds import RootFolder, RootNpz, Upstream
from holdfast.data.spec import DatasetSpec
from holdfast.errors import DataError
from holdfast.storage.npz import Npz

SIZE = (32, 32)
# The archive's own folder first, then torchvision's (an earlier, smaller set, which fails the count check).
_TRAIN_FOLDERS = ("GTSRB/Final_Training/Images", "GTSRB/Training")
_TEST_FOLDER = "GTSRB/Final_Test/Images"
_TEST_TABLE = "GT-final_test.csv"
_ARCHIVES = {
    "train": ("GTSRB_Final_Training_Images.zip",),
    "test": ("GTSRB_Final_Test_Images.zip", "GTSRB_Final_Test_GT.zip"),
}
_PLACES = {"train": (*_ARCHIVES["train"], *_TRAIN_FOLDERS), "test": (*_ARCHIVES["test"], _TEST_FOLDER)}

CLASS_NAMES = (
    "Speed limit 20",
    "Speed limit 30",
    "Speed limit 50",
    "Speed limit 60",
    "Speed limit 70",
    "Speed limit 80",
    "End of speed limit 80",
    "Speed limit 100",
    "Speed limit 120",
    "No passing",
    "No passing, over 3.5 t",
    "Right of way at next intersection",
    "Priority road",
    "Yield",
    "Stop",
    "No vehicles",
    "No vehicles over 3.5 t",
    "No entry",
    "General caution",
    "Dangerous curve left",
    "Dangerous curve right",
    "Double curve",
    "Bumpy road",
    "Slippery road",
    "Road narrows on the right",
    "Road work",
    "Traffic signals",
    "Pedestrians",
    "Children crossing",
    "Bicycles crossing",
    "Beware of ice/snow",
    "Wild animals crossing",
    "End of all limits",
    "Turn right ahead",
    "Turn left ahead",
    "Ahead only",
    "Go straight or right",
    "Go straight or left",
    "Keep right",
    "Keep left",
    "Roundabout mandatory",
    "End of no passing",
    "End of no passing, over 3.5 t",
)

Row = dict[str, str]
_MAX_ROWS = 100_000


def decode(reader: Reader, split: str) -> Arrays:
    """Decode one split from the official files: PPM images and semicolon-separated tables."""
    rows = _train_rows(reader) if split == "train" else _test_rows(reader)
    x = np.empty((len(rows), *SIZE, 3), np.uint8)
    for index, (path, row) in enumerate(rows):
        x[index] = decode_image(reader(path), path, size=SIZE, box=_region(path, row))
    return make_arrays(x, np.array([_number(path, row, "ClassId") for path, row in rows], np.int64), layout="NHWC")


def _train_rows(reader: Reader) -> list[tuple[str, Row]]:
    """Rows class by class. Files are named track_frame, so sorting by name sorts by track and frame."""
    base = _train_folder(reader)
    rows = []
    for label in range(len(CLASS_NAMES)):
        folder = f"{base}/{label:05d}"
        for path, row in _table(reader, f"{folder}/GT-{label:05d}.csv", folder):
            if _number(path, row, "ClassId") != label:
                raise DataError(f"expected class {label} for {path}, found {row['ClassId']}.")
            rows.append((path, row))
    return rows


def _train_folder(reader: Reader) -> str:
    for base in _TRAIN_FOLDERS:
        try:
            reader(f"{base}/00000/GT-00000.csv")
            return base
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{_TRAIN_FOLDERS[0]}/00000/GT-00000.csv is missing")


def _test_rows(reader: Reader) -> list[tuple[str, Row]]:
    return _table(reader, _TEST_TABLE, _TEST_FOLDER)


def _table(reader: Reader, table: str, folder: str) -> list[tuple[str, Row]]:
    text = reader(table).decode("ascii", errors="replace")
    try:
        rows = list(itertools.islice(csv.DictReader(io.StringIO(text), delimiter=";"), _MAX_ROWS + 1))
    except csv.Error as error:
        raise DataError(f"cannot read {table}: {error}; the file is damaged, download it again.") from error
    if not rows or not all(row.get("Filename") for row in rows):
        raise DataError(f"expected a semicolon-separated table with a column Filename in {table}.")
    if len(rows) > _MAX_ROWS:
        raise DataError(f"expected at most {_MAX_ROWS} rows in {table}, found more; this is not the dataset's table.")
    return sorted(((f"{folder}/{row['Filename']}", row) for row in rows), key=lambda found: found[0])


def _region(path: str, row: Row) -> tuple[int, int, int, int]:
    """Crop box (left, upper, right, lower) for Pillow, which excludes the far corner; the table includes it."""
    left, upper, right, lower = (_number(path, row, f"Roi.{corner}") for corner in ("X1", "Y1", "X2", "Y2"))
    return left, upper, right + 1, lower + 1


def _number(path: str, row: Row, column: str) -> int:
    value = row.get(column)
    if value is None or not value.strip().isdigit() or len(value) > 9:
        raise DataError(f"expected a number in column {column} for {path}, found {value!r}.")
    return int(value.strip())  # str.strip removes more kinds of whitespace than int does


def decode_npz(npz: Npz, split: str) -> Arrays:
    """Read one split from decoded arrays `x_train, y_train, x_test, y_test`."""
    return make_arrays(npz.read(f"x_{split}"), npz.read(f"y_{split}"))


SPEC = DatasetSpec(
    name="gtsrb",
    image_shape=(3, *SIZE),
    class_names=CLASS_NAMES,
    counts={"train": 39_209, "test": 12_630},
    checksums={
        "train": "4934f3d488e8dd8be8309f6a8a5a31d657f50d80b4b230ff7e740c26872b63ae",
        "test": "0a6cb07cec08c4023462d15c75a07cb7253b8f6c177dddd1865c81fe5abbae60",
    },
    sources=(
        RootNpz(file="gtsrb-32.npz", decode=decode_npz),
        RootFolder(folders=("gtsrb", "."), files=_PLACES, decode=decode),
        Upstream(
            dataset="gtsrb",
            bases=("https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/",),
            files=_ARCHIVES,
            decode=decode,
        ),
    ),
    by_hand=f"put {', '.join(_ARCHIVES['train'] + _ARCHIVES['test'])} into FOLDER (torchvision downloads "
    "another, earlier training set of 26,640 images), or gtsrb-32.npz with x_train, y_train, x_test, y_test.",
    citation="J. Stallkamp, M. Schlipsing, J. Salmen, C. Igel: Man vs. computer, Neural Networks 32, 2012.",
    licence="none is stated in the published archives.",
)
