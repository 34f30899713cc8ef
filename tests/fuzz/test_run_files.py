"""Fuzz of what a run directory holds: rows, accuracies, log, summary, panels, checkpoint, weights.

Besides "nothing but a holdfast error": what is read is what was written, or a part of it that is said to be a part.
"""

import io
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.material import LONG, anything, fuzzed, only_holdfast_errors
from tests.report.runs import make_panels, write_run

from holdfast.errors import HoldfastError
from holdfast.evaluation.accuracy import Accuracy, read_accuracy
from holdfast.report import view_runs
from holdfast.report.html import report_html
from holdfast.runs import Examples, read_log, read_panels, read_run
from holdfast.runs.rows import Rows
from holdfast.runs.training_log import Log
from holdfast.storage.checksums import line_with_checksum, with_checksum
from holdfast.training.checkpoint import Snapshot, pack, read_checkpoint, read_weights, write_checkpoint

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}
ACCURACY = "id,label,prediction,pgd_correct,crc32\n"
ACCURACY += "".join(f"{line_with_checksum(f'{n},{n % 3},{n % 2},{n % 2}')}\n" for n in range(5))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("run") / "run", n=4, panels=make_panels(0.5, 0, count=2))
    write_checkpoint(folder / "checkpoint", Snapshot(step=3, weights=TENSORS, training=TENSORS, notes={"a": 1}))
    (folder / "weights.safetensors").write_bytes(pack(TENSORS))
    return folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def plant(run: Path, scratch: Path, name: str, data: st.DataObject) -> Path:
    path = scratch / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.draw(anything((run / name).read_bytes())))
    return path


@fuzzed("examples")
@given(data=st.data())
def test_examples(run: Path, scratch: Path, data: st.DataObject) -> None:
    path = plant(run, scratch, "examples.csv", data)
    found = only_holdfast_errors(lambda: Examples(path).read())
    if isinstance(found, Rows):
        assert set(found.rows) <= set(Examples(run / "examples.csv").read().rows)


@fuzzed("accuracy")
@given(content=anything(ACCURACY.encode()))
def test_accuracy(scratch: Path, content: bytes) -> None:
    path = scratch / "accuracy.csv"
    path.write_bytes(content)
    found = only_holdfast_errors(lambda: read_accuracy(path))
    if isinstance(found, Accuracy):
        assert set(found.prediction.items()) <= {(n, n % 2) for n in range(5)}


@fuzzed("log")
@given(data=st.data())
def test_log(run: Path, scratch: Path, data: st.DataObject) -> None:
    path = plant(run, scratch, "log.jsonl", data)
    found = only_holdfast_errors(lambda: read_log(path))
    if isinstance(found, Log):
        assert all(isinstance(entry["step"], int) for entry in found.entries)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def summaries(draw: st.DrawFn, good: dict) -> dict:
    """A summary, properly with_checksum, in which some entries are of another kind."""
    changed = json.loads(json.dumps(good))
    inside = changed
    while True:
        key = draw(st.sampled_from(sorted(inside)))
        if isinstance(inside[key], dict) and inside[key] and draw(st.booleans()):
            inside = inside[key]
            continue
        inside[key] = draw(JSON | st.just(10**400))
        return changed


@fuzzed("summary")
@given(data=st.data(), seal=st.booleans())
def test_summary_and_report(run: Path, scratch: Path, data: st.DataObject, seal: bool) -> None:
    folder = scratch / "summary"
    folder.mkdir(exist_ok=True)
    content = data.draw(summaries(json.loads((run / "summary.json").read_text())))
    content.pop("seal", None)
    (folder / "summary.json").write_text(json.dumps(with_checksum(content) if seal else content))
    only_holdfast_errors(lambda: report_html(view_runs([read_run(folder)]), title="T"))


@fuzzed("summary")
@given(data=st.data())
def test_damaged_summary(run: Path, scratch: Path, data: st.DataObject) -> None:
    path = scratch / "damaged" / "summary.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.draw(anything((run / "summary.json").read_bytes())))
    only_holdfast_errors(lambda: view_runs([read_run(path.parent)]))


@fuzzed("panels")
@given(data=st.data())
def test_panels(run: Path, scratch: Path, data: st.DataObject) -> None:
    path = plant(run, scratch, "panels.npz", data)
    only_holdfast_errors(lambda: read_panels(path))


@st.composite
def odd_arrays(draw: st.DrawFn) -> bytes:
    """Panels whose arrays are sound but of the wrong kind."""
    kinds = (np.uint8, np.float16, np.int64, "<U4", bool, np.complex64)
    shapes = ((), (2,), (2, 1, 4, 4), (2, 4, 4), (0,), (2, 0), (1, 1, 1, 1))
    names = ("attack", "ids", "labels", "predictions", "clean", "perturbed", "clean_map", "perturbed_map", "names", "z")
    chosen = {
        n: np.zeros(draw(st.sampled_from(shapes)), draw(st.sampled_from(kinds)))
        for n in names[: draw(st.integers(0, 10))]
    }
    buffer = io.BytesIO()
    np.savez(buffer, **chosen)
    return buffer.getvalue()


@fuzzed("panels")
@given(content=odd_arrays())
def test_panels_of_odd_arrays(scratch: Path, content: bytes) -> None:
    (scratch / "odd.npz").write_bytes(content)
    only_holdfast_errors(lambda: read_panels(scratch / "odd.npz"))


@fuzzed("checkpoint")
@given(data=st.data(), name=st.sampled_from(("state.json", "weights.safetensors", "training.safetensors")))
def test_checkpoint(run: Path, scratch: Path, data: st.DataObject, name: str) -> None:
    folder = scratch / "checkpoint"
    shutil.copytree(run / "checkpoint", folder, dirs_exist_ok=True)
    (folder / name).write_bytes(data.draw(anything((run / "checkpoint" / name).read_bytes())))
    found = only_holdfast_errors(lambda: read_checkpoint(folder))
    if isinstance(found, Snapshot):
        assert all(torch.equal(found.weights[key], value) for key, value in TENSORS.items())
        assert all(torch.equal(found.training[key], value) for key, value in TENSORS.items())


@fuzzed("weights")
@given(data=st.data())
def test_weights(run: Path, scratch: Path, data: st.DataObject) -> None:
    path = plant(run, scratch, "weights.safetensors", data)
    only_holdfast_errors(lambda: read_weights(path))


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["examples.csv", "accuracy.csv", "summary.json", "log.jsonl", "weights.safetensors"])
def test_no_single_bit_changes_a_result(run: Path, scratch: Path, name: str) -> None:
    """Bits of every file that holds a result, one at a time (all in the long form): an error, or the same content."""
    readers = {
        "examples.csv": lambda path: Examples(path).read().rows,
        "accuracy.csv": lambda path: list(read_accuracy(path).prediction.items()),
        "summary.json": lambda path: [read_run(path.parent).summary],
        "log.jsonl": lambda path: [json.dumps(entry, sort_keys=True) for entry in read_log(path).entries],
        "weights.safetensors": lambda path: sorted((k, v.tolist()) for k, v in read_weights(path).items()),
    }
    good = ACCURACY.encode() if name == "accuracy.csv" else (run / name).read_bytes()
    path = scratch / "bits" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(good)
    expected = readers[name](path)
    every = range(8 * len(good))
    for at in every if LONG else (*random.Random(0).sample(every, 150), *every[-8:]):
        position, bit = divmod(at, 8)
        path.write_bytes(good[:position] + bytes([good[position] ^ 1 << bit]) + good[position + 1 :])
        try:
            found = readers[name](path)
        except HoldfastError:
            continue
        # what lost its last line end counts as torn, which the evaluation redoes and the report says
        torn = position == len(good) - 1 and name.endswith((".csv", ".jsonl"))
        assert list(found) == list(expected[:-1] if torn else expected), (position, bit)
