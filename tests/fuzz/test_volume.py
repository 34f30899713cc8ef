"""Fuzz by volume: good files with a few bytes changed, tens of thousands of them, without the care of hypothesis.

Hypothesis looks for the smallest bad input among few; this looks at many. Each input is a function of its number, so a
failure names the one that did it.
"""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.material import LONG, PATIENCE, VOLUME, mutated, only_holdfast_errors
from tests.fuzz.test_data_files import IDX, NPZ, PICTURES, SMALL, TABLE, archives  # noqa: F401 - a fixture
from tests.fuzz.test_run_files import ACCURACY, run  # noqa: F401 - a fixture
from tests.fuzz.test_settings import SHORT_TOML, TOML

from holdfast.config import config_from_file
from holdfast.data.datasets import gtsrb
from holdfast.data.datasets.own_npz import load_npz
from holdfast.data.formats.archives import open_files
from holdfast.data.formats.idx import read_idx
from holdfast.data.formats.images import decode, probe
from holdfast.evaluation.accuracy import read_accuracy
from holdfast.runs import Examples, read_json, read_log, read_panels
from holdfast.training.checkpoint import read_checkpoint, read_weights

COUNT = VOLUME if LONG else 60
Door = tuple[list[bytes], Callable[[bytes], Any]]


def from_file(path: Path, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    def call(data: bytes) -> Any:
        path.write_bytes(data)
        return read(path)

    return call


def archived(folder: Path, name: str) -> Callable[[bytes], Any]:
    def call(data: bytes) -> Any:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        try:
            with open_files(folder, [name], limits=SMALL) as reader:
                return reader("a/b")
        except FileNotFoundError:
            return None  # an archive without the member: the next source is tried

    return call


def signs(data: bytes) -> Any:
    return gtsrb.decode(lambda name: data if name.endswith(".csv") else PICTURES[0], "test")


@pytest.fixture
def doors(run: Path, archives: dict[str, bytes], tmp_path: Path) -> dict[str, Door]:  # noqa: F811
    shutil.copytree(run / "checkpoint", tmp_path / "checkpoint")

    def result(name: str, read: Callable[[Path], Any]) -> Door:
        return [(run / name).read_bytes()], from_file(tmp_path / name, read)

    return {
        "idx": ([IDX], lambda data: read_idx(data, dims=3)),
        "image": (PICTURES, lambda data: decode(data, "a.ppm", size=(5, 5))),
        "probe": (PICTURES, from_file(tmp_path / "a.png", probe)),
        "table": ([TABLE], signs),
        "npz": (NPZ, from_file(tmp_path / "own.npz", lambda path: load_npz(path, "all"))),
        **{name: ([data], archived(tmp_path / name.replace("/", "-"), name)) for name, data in archives.items()},
        "config": ([TOML, SHORT_TOML], from_file(tmp_path / "config.toml", config_from_file)),
        "accuracy": ([ACCURACY.encode()], from_file(tmp_path / "accuracy.csv", read_accuracy)),
        "examples": result("examples.csv", lambda path: Examples(path).read()),
        "log": result("log.jsonl", read_log),
        "summary": result("summary.json", read_json),
        "panels": result("panels.npz", read_panels),
        "weights": result("weights.safetensors", read_weights),
        "checkpoint": result("checkpoint/state.json", lambda path: read_checkpoint(path.parent)),
    }


DOORS = ("idx", "image", "probe", "table", "npz", "a.zip", "a.tgz", "a/b.gz", "config", "accuracy", "examples", "log")
DOORS += ("summary", "panels", "weights", "checkpoint")


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", DOORS)
def test_many(doors: dict[str, Door], name: str) -> None:
    good, call = doors[name]
    for number in range(COUNT):
        source = random.Random(number)
        data = mutated(source.choice(good), source)
        began = time.monotonic()
        try:
            only_holdfast_errors(lambda data=data: call(data))
        except Exception as error:
            raise AssertionError(f"input {number} of {name} ({data[:200]!r}): {error!r}") from error
        assert time.monotonic() - began < PATIENCE.total_seconds(), (name, number)


def test_all_doors_are_tried(doors: dict[str, Door]) -> None:
    assert set(doors) == set(DOORS)
