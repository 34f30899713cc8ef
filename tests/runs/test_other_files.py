"""The other files of a run directory: whole or not at all, and refused when broken."""

import math
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.material import refusal

from holdfast.errors import DataError, InputError
from holdfast.runs import (
    Panels,
    read_json,
    read_log,
    read_panels,
    read_run,
    write_json_atomic,
    write_panels,
    write_text_atomic,
)
from holdfast.runs.training_log import log_line
from holdfast.storage.json_files import plain
from holdfast.storage.lines import append_lines


def test_atomic_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    write_text_atomic(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left on device; free some space"):
        write_json_atomic(path, {"new": 1})
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', '{"a":' * 100_000, "\udcff"])
def test_broken_json_is_a_data_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"summary\.json"):
        read_json(path)


def test_log_drops_the_torn_line_and_keeps_the_later_of_two(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for step, total in ((0, 1.0), (10, math.nan), (0, 3.0)):
        append_lines(path, log_line(plain({"step": step, "parts": {"total": total}})))
    with path.open("a") as file:
        file.write('{"step": 20, "pa')
    log = read_log(path)
    assert [entry["step"] for entry in log.entries] == [0, 10]
    assert [entry["parts"]["total"] for entry in log.entries] == [3.0, None]
    assert "cut off" in log.notes[0]
    path.write_text('{"step": "x"}\n')
    with pytest.raises(DataError, match="line 1"):
        read_log(path)


def make_panels(**changes: Any) -> Panels:
    image = np.zeros((2, 1, 4, 5), np.uint8)
    known: dict[str, Any] = {
        "attack": "ifia-topk", "ids": np.arange(2), "labels": np.arange(2), "predictions": np.arange(2),
        "clean": image, "perturbed": image.astype(np.float32) + 0.5, "clean_map": np.ones((2, 4, 5)),
        "perturbed_map": np.ones((2, 4, 5)),
    }  # fmt: skip
    return Panels(**(known | changes))


def test_panels_come_back(tmp_path: Path) -> None:
    write_panels(tmp_path / "panels.npz", make_panels(names=("<b>", "b.png")))
    found = read_panels(tmp_path / "panels.npz")
    assert found.names == ("<b>", "b.png")
    assert found.perturbed.dtype == np.float16
    assert found.attack == "ifia-topk"


@pytest.mark.parametrize(
    "changes",
    [{"ids": np.arange(3)}, {"clean": np.zeros((2, 2, 4, 5))}, {"names": ("a",)}, {"labels": np.array(["a", "b"])}],
)
def test_panels_refuse_other_shapes(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        make_panels(**changes)


def test_panels_never_unpickle_and_check_sizes_first(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    path = tmp_path / "panels.npz"
    np.savez(path, attack=np.array([Bomb()], dtype=object))
    with pytest.raises(DataError, match=r"panels\.npz"):
        read_panels(path)
    assert not (tmp_path / "executed").exists()
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(DataError, match="delete it"):
        read_panels(path)
    write_panels(path, make_panels())
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        assert "panels.npz" in (refusal(lambda: read_panels(path)) or "panels.npz")


def test_header_that_promises_gigabytes_is_refused(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "panels.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2000000000,), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DataError, match="expected 16000000"):
        read_panels(path)


@given(
    content=st.binary(max_size=300), name=st.sampled_from(["examples.csv", "log.jsonl", "summary.json", "panels.npz"])
)
def test_garbage_is_never_more_than_a_holdfast_error(
    content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("garbage")
    (folder / name).write_bytes(content)
    run = read_run(folder)
    for part in ("examples", "log", "summary", "panels", "provenance", "config"):
        assert name in (refusal(lambda part=part: getattr(run, part)) or name)
