"""`flower17`: Oxford 17 category flower dataset, 80 photographs per class.

Each photograph is resized as a whole, without cropping, to 128x128 by Pillow's BILINEAR. The split (72 training and 8
test images per class) is our own published list `splits/flower17.json`: the stratified subset of 136 images that
`holdfast.data.subsets` draws with seed 0. (The papers' released code also splits 72/8, but in the order in which the
file system lists the files.)

M-E. Nilsback, A. Zisserman: A visual vocabulary for flower classification, CVPR 2006.
"""

import numpy as np

from holdfast.data.datasets.splits import split_indices
from holdfast.data.formats.archives import Reader
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.formats.images import decode as decode_image
from holdfast.data.sources.kinds import SPLITS, RootFolder, RootNpz, Upstream
from holdfast.data.spec import DatasetSpec
from holdfast.errors import DataError
from holdfast.storage.npz import Npz

SIZE = (128, 128)
PER_CLASS = 80
CLASS_NAMES = (
    "daffodil",
    "snowdrop",
    "lily of the valley",
    "bluebell",
    "crocus",
    "iris",
    "tigerlily",
    "tulip",
    "fritillary",
    "sunflower",
    "daisy",
    "colt's foot",
    "dandelion",
    "cowslip",
    "buttercup",
    "windflower",
    "pansy",
)
_TOTAL = PER_CLASS * len(CLASS_NAMES)
_ARCHIVE = "17flowers.tgz"


def decode(reader: Reader, split: str) -> Arrays:
    """Decode one split from `jpg/image_0001.jpg` to `jpg/image_1360.jpg`; the class is (number - 1) // 80."""
    chosen = split_indices("flower17", split, _TOTAL)
    x = np.empty((len(chosen), *SIZE, 3), np.uint8)
    for row, index in enumerate(chosen):
        path = f"jpg/image_{index + 1:04d}.jpg"
        x[row] = decode_image(reader(path), path, size=SIZE)
    return make_arrays(x, chosen // PER_CLASS, layout="NHWC")


def decode_npz(npz: Npz, split: str) -> Arrays:
    """Read one split from decoded arrays `x` and `y` of all images in official order."""
    arrays = make_arrays(npz.read("x"), npz.read("y"))
    if not np.array_equal(arrays.y, np.arange(_TOTAL) // PER_CLASS):
        raise DataError(f"expected {PER_CLASS} images per class in official order, found other labels.")
    return arrays.take(split_indices("flower17", split, _TOTAL))


_PLACES = dict.fromkeys(SPLITS, (_ARCHIVE, "jpg"))

SPEC = DatasetSpec(
    name="flower17",
    image_shape=(3, *SIZE),
    class_names=CLASS_NAMES,
    counts={"train": 1_224, "test": 136},
    checksums={
        "train": "f3ae3a7fbf48da4aedf16896667fcd1abf97aaa40d9876fee5a76e0d423f1bf1",
        "test": "40ed7c11bbf253463a5d705ea76ea45e4f1ac3aa4bb1c78f3c532fdc507fa6fa",
    },
    sources=(
        RootNpz(file="flower17-128.npz", decode=decode_npz),
        RootFolder(folders=(".", "flower17", "17flowers", "flowers-17"), files=_PLACES, decode=decode),
        Upstream(
            dataset="flower17",
            bases=("https://www.robots.ox.ac.uk/~vgg/data/flowers/17/",),
            files=dict.fromkeys(SPLITS, (_ARCHIVE,)),
            decode=decode,
        ),
    ),
    by_hand=f"put {_ARCHIVE} (or its folder jpg), or flower17-128.npz with x, y, into FOLDER.",
    citation="M-E. Nilsback, A. Zisserman: A visual vocabulary for flower classification, CVPR 2006.",
    licence="none is stated on the publisher's page.",
)
