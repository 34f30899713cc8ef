"""Fuzz of the file parsers guided by coverage, where atheris is installed (`pip install atheris`); long form only."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.material import LONG

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not LONG, reason="only in the long form: make test-long"),
    pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed, and need not be"),
]

# Apart, since the fuzzer ends its process. Coverage guides it through our parsers; Pillow and NumPy stay as they are.
SCRIPT = """
import sys
import atheris
with atheris.instrument_imports(include=["holdfast.data"]):
    from holdfast.data import gtsrb
    from holdfast.data.idx import read_idx
    from holdfast.data.images import decode
from holdfast.errors import HoldfastError

doors = {
    "idx": lambda data: read_idx(data, dims=3),
    "image": lambda data: decode(data, "a.ppm", size=(5, 5)),
    "table": lambda data: gtsrb.decode(lambda name: data if name.endswith(".csv") else b"P5 1 1 255 a", "test"),
}
door = doors[sys.argv.pop(1)]

def one(data):
    try:
        door(data)
    except HoldfastError:
        pass

atheris.Setup(sys.argv, one)
atheris.Fuzz()
"""


@pytest.mark.parametrize("door", ["idx", "image", "table"])
def test_parsers(door: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, door, "-runs=200000", "-rss_limit_mb=2048", "-timeout=20", "-max_len=400"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
