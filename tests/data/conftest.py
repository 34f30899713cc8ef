"""Tiny datasets in the original formats."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.web import QUICK, Server, serving

from holdfast.data.datasets import mnist
from holdfast.data.formats.arrays import Arrays, make_arrays
from holdfast.data.sources.download import Download
from holdfast.data.sources.kinds import RootFolder, Source, Upstream
from holdfast.data.spec import DatasetSpec


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """An IDX file, written by hand."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@dataclass
class TinyMnist:
    """Seven training and three test images of 4x5 in MNIST's own files."""

    images: dict[str, NDArray[np.uint8]]
    labels: dict[str, NDArray[np.uint8]]

    def files(self) -> dict[str, bytes]:
        prefixes = {"train": "train", "test": "t10k"}
        images = {f"{prefixes[s]}-images-idx3-ubyte": idx_bytes(x) for s, x in self.images.items()}
        return images | {f"{prefixes[s]}-labels-idx1-ubyte": idx_bytes(y) for s, y in self.labels.items()}

    def write(self, folder: Path, *, packed: bool) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files().items():
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)
        return folder

    def write_npm(self, path: Path) -> None:
        members = {f"package/data/{name}": data for name, data in self.files().items()}
        write_tar(path, {"package/package.json": b"{}"} | members)

    def arrays(self, split: str) -> Arrays:
        return make_arrays(self.images[split], self.labels[split])

    def spec(self, *sources: Source) -> DatasetSpec:
        checksums = {split: self.arrays(split).checksum() for split in self.images}
        counts = {split: len(y) for split, y in self.labels.items()}
        return replace(mnist.MNIST, image_shape=(1, 4, 5), counts=counts, checksums=checksums, sources=sources)

    def root(self) -> Source:
        return next(source for source in mnist.MNIST.sources if isinstance(source, RootFolder))

    def upstream(self, *bases: str) -> Source:
        return replace(next(s for s in mnist.MNIST.sources if isinstance(s, Upstream)), bases=bases)


@pytest.fixture
def tiny_mnist() -> TinyMnist:
    noise = np.random.default_rng(0)
    images = {s: noise.integers(0, 256, (n, 4, 5), dtype=np.uint8) for s, n in (("train", 7), ("test", 3))}
    return TinyMnist(images, {s: (np.arange(len(x)) % 3).astype(np.uint8) for s, x in images.items()})


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def write_zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    with serving(state.answer) as state.url:
        yield state


@pytest.fixture
def quick() -> Download:
    return QUICK


@pytest.fixture
def tar_writer() -> Callable[[Path, dict[str, bytes]], None]:
    return write_tar


@pytest.fixture
def zip_writer() -> Callable[[Path, dict[str, bytes]], None]:
    return write_zip
