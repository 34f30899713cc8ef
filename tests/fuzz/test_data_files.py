"""Fuzz of the dataset parsers: IDX, images, GTSRB's tables, npz, archives. Nothing but a holdfast error comes out."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.data.conftest import idx_bytes, write_tar
from tests.fuzz.material import anything, fuzzed, only_holdfast_errors

from holdfast.data.datasets import gtsrb
from holdfast.data.datasets.own_npz import load_npz
from holdfast.data.formats.archives import Limits, gunzip, open_files
from holdfast.data.formats.idx import read_idx
from holdfast.data.formats.images import decode, probe

IDX = idx_bytes(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
TABLE = b"Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\r\n"
TABLE += b"".join(b"0000%d.ppm;9;9;1;1;%d;7;0\r\n" % (n, 4 + n) for n in range(3))
SMALL = Limits(members=20, file_bytes=1 << 16, total_bytes=1 << 18)


def picture(kind: str, mode: str = "RGB") -> bytes:
    pixels = np.arange(9 * 9 * 3, dtype=np.uint8).reshape(9, 9, 3)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


PICTURES = [picture(kind) for kind in ("PPM", "PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")] + [picture("PPM", "L")]


def npz_bytes(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


LABELS = np.array([0, 1, 1])
NPZ = [
    npz_bytes(x=np.zeros((3, 2, 2), np.uint8), y=LABELS),
    npz_bytes(x=np.zeros((3, 2, 2, 1), np.float32), y=LABELS, class_names=np.array(["a", "b"])),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@fuzzed("idx")
@given(data=anything(IDX), dims=st.integers(1, 3))
def test_idx(data: bytes, dims: int) -> None:
    found = only_holdfast_errors(lambda: read_idx(data, dims=dims))
    if isinstance(found, np.ndarray):
        assert found.nbytes <= len(data)


@fuzzed("image")
@given(data=st.sampled_from(PICTURES).flatmap(anything), mode=st.sampled_from(("RGB", "L")))
def test_image(folder: Path, data: bytes, mode: str) -> None:
    found = only_holdfast_errors(lambda: decode(data, "name.ppm", size=(5, 5), box=(1, 1, 7, 7), mode=mode))
    if isinstance(found, np.ndarray):
        assert found.shape[:2] == (5, 5)
    (folder / "image.png").write_bytes(data)
    only_holdfast_errors(lambda: probe(folder / "image.png"))


@fuzzed("gtsrb table")
@given(table=anything(TABLE), image=st.sampled_from((PICTURES[0], b"")))
def test_gtsrb_table(table: bytes, image: bytes) -> None:
    def reader(name: str) -> bytes:
        return table if name.endswith(".csv") else image

    only_holdfast_errors(lambda: gtsrb.decode(reader, "test"))


@fuzzed("npz")
@given(
    data=st.sampled_from(NPZ).flatmap(anything),
    split=st.sampled_from(("all", "train", "test")),
    holdout=st.sampled_from((None, 0.5, 1)),
)
def test_npz(folder: Path, data: bytes, split: str, holdout: float | None) -> None:
    path = folder / "own.npz"
    path.write_bytes(data)
    only_holdfast_errors(lambda: load_npz(path, split, holdout=holdout))


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """An .npy header of made-up promises, in a zip that is sound."""
    shape = draw(st.lists(st.integers(-1, 2**40) | st.sampled_from(("x", None, 1.5)), max_size=4).map(tuple))
    kind = draw(st.sampled_from(("|u1", "<f4", "<i8", "|O", "<U3", "|V8", "<M8[s]", "<c8", "nonsense", "")))
    text = repr({"descr": kind, "fortran_order": draw(st.booleans()), "shape": shape}).encode() + b"\n"
    text = draw(st.sampled_from((text, text, text[:-3], b"(" * 300, b"-" * 3000 + b"1", b"[" * 9000)))
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + draw(st.binary(max_size=40))


@fuzzed("npz")
@given(x=headers(), y=headers())
def test_npz_headers(folder: Path, x: bytes, y: bytes) -> None:
    path = folder / "headers.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", x)
        archive.writestr("y.npy", y)
    only_holdfast_errors(lambda: load_npz(path, "all"))


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("archives")
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b", b"content" * 30)
        archive.writestr("c", b"")
    write_tar(folder / "a.tgz", {"a/b": b"content" * 30, "c": b""})
    return {name: (folder / name).read_bytes() for name in ("a.zip", "a.tgz")} | {"a/b.gz": gzip.compress(b"content")}


@fuzzed("archive")
@given(data=st.data(), name=st.sampled_from(("a.zip", "a.tgz", "a/b.gz")))
def test_archive(folder: Path, archives: dict[str, bytes], data: st.DataObject, name: str) -> None:
    inside = folder / "archive"
    (inside / "a").mkdir(parents=True, exist_ok=True)
    for other in archives:
        (inside / other).unlink(missing_ok=True)
    (inside / name).write_bytes(data.draw(anything(archives[name])))

    def read() -> bytes:
        with open_files(inside, [name], limits=SMALL) as reader:
            return reader("a/b")

    try:
        only_holdfast_errors(read)
        if name.endswith(".gz"):
            only_holdfast_errors(lambda: gunzip(inside / name, 100))
    except FileNotFoundError:
        pass  # an archive without the member: the next source is tried
