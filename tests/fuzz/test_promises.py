"""Files that promise far more than there is, or is sane: refused before anything of that size is allocated."""

import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.fuzz
TEN_GB = 10 * 1000**3
MOST = 300 << 20

# Run apart, so that the peak of the memory is that of these reads alone.
SCRIPT = """
import resource, sys
from pathlib import Path
import torch
from holdfast.data.formats.archives import open_files
from holdfast.data.formats.idx import read_idx
from holdfast.data.formats.images import decode, probe
from holdfast.data.datasets.own_npz import load_npz
from holdfast.data.datasets.own_folder import load_folder
from holdfast.config import config_from_file
from holdfast.evaluation.accuracy import read_accuracy
from holdfast.errors import HoldfastError
from holdfast.runs import Examples, read_json, read_log, read_panels
from holdfast.training.checkpoint import read_checkpoint, read_weights

folder = Path(sys.argv[1])

def plain(name):
    with open_files(folder) as reader:
        return reader(name)

doors = {
    "idx": lambda p: read_idx(p.read_bytes(), dims=3),
    "sparse": lambda p: plain(p.name),
    "gz": lambda p: plain(p.name.removesuffix(".gz")),
    "ppm": lambda p: decode(p.read_bytes(), p.name),
    "png": lambda p: probe(p),
    "npz": lambda p: load_npz(p, "all"),
    "labels": lambda p: load_npz(p, "all"),
    "panels": read_panels,
    "toml": config_from_file,
    "csv": lambda p: Examples(p).read(),
    "accuracy": read_accuracy,
    "jsonl": read_log,
    "json": read_json,
    "safetensors": read_weights,
    "state": lambda p: read_checkpoint(p.parent),
}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, door in doors.items():
    path = next(folder.glob(f"{name}/*"), None) or next(folder.glob(f"{name}.*"))
    try:
        door(path)
        print("accepted", name)
    except HoldfastError as error:
        print("refused", name, error)
    except FileNotFoundError as error:
        print("missing", name, error)
    print("peak", name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print("grown by", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def sparse(path: Path, start: bytes = b"") -> None:
    """A file of 10 GB that takes no room on the disk."""
    with path.open("wb") as file:
        file.write(start)
        file.truncate(TEN_GB)


def npy(shape: tuple[int, ...], kind: str = "|u1", data: bytes = b"") -> bytes:
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def zipped(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)


def test_ten_gigabytes_are_refused_before_they_are_allocated(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "idx.bin").write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 10_000_000, 32, 32) + bytes(100))
    sparse(tmp_path / "sparse.bin")
    with gzip.open(tmp_path / "gz.bin.gz", "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    (tmp_path / "ppm.ppm").write_bytes(b"P6 60000 60000 255\n" + bytes(100))
    size = struct.pack(">2I", 60_000, 60_000)
    (tmp_path / "png.png").write_bytes(
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + size + b"\x08\x02\x00\x00\x00" + bytes(9)
    )
    zipped(tmp_path / "npz.npz", x=npy((10_000_000, 32, 32)), y=npy((1,), "<i8", bytes(8)))
    label = (2**40).to_bytes(8, "little")
    zipped(tmp_path / "labels.npz", x=npy((1, 2, 2), data=bytes(4)), y=npy((1,), "<i8", label))
    zipped(tmp_path / "panels.npz", clean=npy((10_000_000, 1, 32, 32)))
    for name in ("toml.toml", "csv.csv", "accuracy.csv", "jsonl.jsonl", "json.json"):
        sparse(tmp_path / name)
    sparse(tmp_path / "safetensors.safetensors", struct.pack("<Q", TEN_GB - 8))
    (tmp_path / "state").mkdir()
    sparse(tmp_path / "state" / "state.json")
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith(("accepted", "missing"))] == []
    assert sum(line.startswith("refused") for line in lines) == 15
    assert int(lines[-1].split()[-1]) * 1024 < MOST, done.stdout
