"""Several processes share the images and write what one process writes, byte for byte; a lost process loses nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.evaluation import shards
from tests.faults.work import OPTIONS
from tests.training.stand_in import two_processes

import holdfast as hf
from holdfast.experiment.measure import measure
from holdfast.runs import read_json

ROWS = ("examples.csv", "accuracy.csv", "apgd.csv", "measured.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, evaluated by one process."""
    folder = shards.trained(tmp_path_factory.mktemp("shards") / "one")
    shutil.copytree(folder, f"{folder}-unmeasured")
    measure(folder, shards.WITH_QUALITY)
    return folder


@pytest.fixture
def again(run: Path, tmp_path: Path) -> Path:
    """The same run, not evaluated yet."""
    return Path(shutil.copytree(f"{run}-unmeasured", tmp_path / "two"))


def together(function: Any, folder: Path) -> list[int | None]:
    processes = two_processes(function, folder)
    for process in processes:
        process.join(900)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def torchrun(*words: str, processes: int = 2) -> "subprocess.CompletedProcess[str]":
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(["", *sys.path])}
    options: Any = {"env": environment, "capture_output": True, "text": True, "timeout": 900}
    return subprocess.run([*start, "-m", "holdfast", *words], check=False, **options)


def same(one: Path, two: Path) -> None:
    """Rows, accuracies and identity byte for byte, the summary apart from times, the pictures."""
    for name in ROWS:
        assert (one / name).exists() == (two / name).exists(), name
        assert not (one / name).exists() or (one / name).read_bytes() == (two / name).read_bytes(), name
    times = {"provenance": 0, "train_seconds": 0}
    assert read_json(one / "summary.json") | times == read_json(two / "summary.json") | times
    with np.load(one / "panels.npz") as a, np.load(two / "panels.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in a.files)


def test_two_processes_write_the_same(run: Path, again: Path) -> None:
    assert together(shards.evaluate, again) == [0, 0]
    same(run, again)
    # 18 images in batches of 4: 5 batches, 3 rounds, in the last one process 1 has nothing to do
    assert (again.parent / "two.rows-0").read_text() == (again.parent / "two.rows-1").read_text()
    assert {"insertion", "deletion"} <= read_json(again / "summary.json")["quality"].keys()


def test_a_lost_process_is_said_and_the_rest_is_done_later(run: Path, again: Path) -> None:
    assert together(shards.evaluate_and_lose_one, again) == [2, -9]
    message = (again.parent / "two.error-0").read_text()
    assert message.startswith("LostProcessError: another process ended before the work was done")
    assert "run the same command again to resume" in message
    whole, part = ((folder / "examples.csv").read_bytes() for folder in (run, again))
    assert 9 < part.count(b"\n") < whole.count(b"\n")
    assert whole.startswith(part)
    half = shutil.copytree(again, again.parent / "half")
    measure(half, shards.WITH_QUALITY)
    same(run, half)
    assert together(shards.evaluate, again) == [0, 0]
    same(run, again)


def test_a_process_lost_in_training_is_said_and_the_run_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert together(shards.train_and_lose_one, folder) == [2, -9]
    assert (tmp_path / "run.error-0").read_text().startswith("LostProcessError: another process ended")
    assert (folder / "checkpoints").is_dir()
    shards.run_training(shards.make_config("digits/madry", overrides=shards.SMALL), folder, resume=True, progress=False)
    assert (folder / "weights.safetensors").exists()


def test_processes_with_different_networks_are_refused(run: Path, again: Path) -> None:
    shards.trained(Path(f"{again}-other"), steps=3)
    assert together(shards.evaluate_other_network, again) == [2, 2]
    assert "the same evaluation in every process, got another network" in Path(f"{again}.error-0").read_text()
    assert not (again / "examples.csv").exists()


def test_collective_operations(tmp_path: Path) -> None:
    assert together(shards.collect, tmp_path) == [0, 0]
    for rank in (0, 1):
        found = eval((tmp_path / f"found-{rank}").read_text())
        assert found[0] == [{"rank": r, "text": "ä" * (1 + 5 * r), "number": 0.1 + r} for r in (0, 1)]
        assert found[1] == [0, None]
        dealt = [(("a", "b")[rank], "ab"), (("c", "d")[rank], "cd"), (("e", None)[rank], "e")]
        assert found[2] == dealt
        assert found[3] == [0, 1]
    errors = [eval((tmp_path / f"found-{rank}").read_text())[4] for rank in (0, 1)]
    assert errors[0] == "the process with rank 1 failed; see its error message."
    assert "by zero" in errors[1]


def test_alone_nothing_is_converted() -> None:
    alone = hf.training.Processes()
    value = object()
    assert alone.gather(value) == [value]
    assert alone.each(lambda: value) == [value]
    assert alone.shared(lambda: value) is value
    assert list(alone.rounds([1, 2])) == [(1, [1]), (2, [2])]


def test_torchrun_audit(run: Path, tmp_path: Path) -> None:
    digits = hf.data.load("digits", "test").subset(range(40))
    images = tmp_path / "digits.npz"
    np.savez(images, x_test=digits.x.numpy(), y_test=digits.y.numpy())
    words = ["audit", "--model", str(run), "--data", str(images), "--labels", "predicted", "--limit", "20"]
    words += ["--passes", "60", "--ig-steps", "3", "--search-ig-steps", "3", "--eps", "0.1"]  # 20 images: two batches
    two = torchrun(*words, "--out", str(tmp_path / "two" / "audit"))
    assert two.returncode == 0, two.stderr[-2000:]
    one = torchrun(*words, "--out", str(tmp_path / "one" / "audit"), processes=1)
    assert one.returncode == 0, one.stderr[-2000:]
    same(tmp_path / "one" / "audit", tmp_path / "two" / "audit")
    assert two.stdout.count("report: ") == 1
    assert (tmp_path / "two" / "audit" / "report.html").exists()


def test_torchrun_evaluate(run: Path, again: Path, tmp_path: Path) -> None:
    options = ["--limit", "12", "--pgd-limit", "16", "--no-strongest", "--quiet"]
    done = torchrun("evaluate", str(again), *options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("Results on digits") == 1
    alone = shutil.copytree(f"{run}-unmeasured", tmp_path / "alone")
    measure(alone, OPTIONS)
    assert (alone / "examples.csv").read_bytes() == (again / "examples.csv").read_bytes()
    assert json.loads((again / "summary.json").read_text())["n"] == 12


def test_a_user_error_names_the_process(tmp_path: Path) -> None:
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    words = [sys.executable, "-m", "holdfast", "evaluate", str(tmp_path / "nowhere")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast (process 1 of 2): ")
