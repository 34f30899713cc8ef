"""Full disks, read-only folders, damaged files, a second process, a clock gone back: a clear error or a recovery."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.conftest import TinyMnist, tiny_mnist  # noqa: F401 - a fixture
from tests.faults import work

from holdfast.config import make_config
from holdfast.data.sources.kinds import Request
from holdfast.data.sources.obtain import obtain
from holdfast.errors import DataError, HoldfastError
from holdfast.experiment.networks import load
from holdfast.experiment.run import run_training
from holdfast.report import view_runs, write_report
from holdfast.runs import read_run
from holdfast.storage.lock import LOCK, OWNER, locked
from holdfast.training import RunDirectoryBusyError

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]
JOBS = {"train": work.train, "evaluate": work.evaluate}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert work.finish(work.train, folder) == 0, work.said(folder)
    return folder


@pytest.fixture(scope="module")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "run"
    shutil.copytree(trained, folder)
    assert work.finish(work.evaluate, folder) == 0, work.said(folder)
    return folder


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small file system of its own; skips where only root may mount, or nobody."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


# ---- the disk ----


@pytest.mark.parametrize("limit", [2_000, 9_000, 20_000])
def test_file_size_limit_while_training(trained: Path, tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "run"
    code = work.finish(work.train, folder, file_limit=limit)
    if code:
        assert code == 2, work.said(folder)
        assert "cannot write" in work.said(folder)
    work.check_whole(folder)
    assert work.finish(work.train, folder) == 0, work.said(folder)
    assert work.result(folder) == work.result(trained)


@pytest.mark.parametrize("limit", [400, 2_000])
def test_file_size_limit_while_measuring(trained: Path, measured: Path, tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    assert work.finish(work.evaluate, folder, file_limit=limit) == 2
    assert "cannot write" in work.said(folder)
    work.check_whole(folder)
    assert work.finish(work.evaluate, folder) == 0, work.said(folder)
    assert work.result(folder) == work.result(measured)


def test_full_disk(trained: Path, tmp_path: Path) -> None:
    """A real one: a file system of 100 kB, on which the run does not fit; with room, it goes on."""
    with mounted(tmp_path / "disk", "size=100k") as disk:
        folder = disk / "run"
        process = work.in_process(_train_and_tell, folder, tmp_path / "told")
        process.join(work.PATIENCE)
        assert process.exitcode == 0
        assert "No space left on device" in (tmp_path / "told").read_text()
        work.check_whole(folder)
        subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
        assert work.finish(work.train, folder) == 0, work.said(folder)
        assert work.result(folder) == work.result(trained)


def _train_and_tell(folder: Path, told: Path) -> None:
    try:
        work.train(folder)
        told.write_text("it worked")
    except DataError as error:
        told.write_text(str(error))


def test_read_only_folder(measured: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=10m") as disk:
        shutil.copytree(measured, disk / "run")
        (disk / "run" / "summary.json").unlink()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(HoldfastError, match="Read-only file system"):
            work.evaluate(disk / "run")
        with pytest.raises(HoldfastError, match="Read-only file system"):
            work.train(disk / "new")
        views = view_runs([read_run(disk / "run")])
        with pytest.raises(DataError, match="Read-only file system"):
            write_report(views, disk / "report.html")
        load(disk / "run")  # reading needs no permission to write


def test_a_file_where_a_folder_should_be(measured: Path, tmp_path: Path) -> None:
    """What also tells a user without permission; tests may run as root, whom permissions do not stop."""
    (tmp_path / "file").write_text("in the way")
    views = view_runs([read_run(measured)])
    with pytest.raises(DataError, match="cannot write"):
        write_report(views, tmp_path / "file" / "report.html")
    with pytest.raises(HoldfastError, match="Not a directory"):
        work.train(tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "in the way"


# ---- damaged files ----

RESULTS = ("weights.safetensors", "examples.csv", "accuracy.csv", "summary.json", "measured.json", "provenance.json")


@pytest.mark.parametrize("damage", ["cut", "flip"])
@pytest.mark.parametrize("name", RESULTS)
def test_damaged_results_are_refused_or_made_again(measured: Path, tmp_path: Path, name: str, damage: str) -> None:
    """Evaluating again either says which file is damaged or ends with the very same results; so does the report."""
    expected, moments = work.result(measured), random.Random(len(name))
    content = (measured / name).read_bytes()
    for number in range(20 if work.LONG else 2):
        folder = tmp_path / str(number)
        shutil.copytree(measured, folder)
        at = moments.randrange(len(content))
        flipped = content[:at] + bytes([content[at] ^ 1 << moments.randrange(8)]) + content[at + 1 :]
        (folder / name).write_bytes(content[:at] if damage == "cut" else flipped)
        if name not in ("measured.json",):
            with contextlib.suppress(HoldfastError):
                views = view_runs([read_run(folder)])
                assert {row for v in views for row in v.run.examples.rows} <= set(read_run(measured).examples.rows)
                if name == "summary.json":
                    assert views[0].run.summary == read_run(measured).summary
        try:
            work.evaluate(folder)
        except HoldfastError as error:
            refusal = str(error)
        else:
            refusal = ""
            assert work.result(folder) == expected
        assert name in refusal or not refusal


def test_damaged_panels(measured: Path, tmp_path: Path) -> None:
    folder, moments = tmp_path / "run", random.Random(0)
    shutil.copytree(measured, folder)
    content = (folder / "panels.npz").read_bytes()
    good = read_run(measured).panels
    for _ in range(200 if work.LONG else 20):
        at = moments.randrange(len(content))
        flipped = content[:at] + bytes([content[at] ^ 1 << moments.randrange(8)]) + content[at + 1 :]
        (folder / "panels.npz").write_bytes(moments.choice((flipped, content[:at])))
        try:
            found = read_run(folder).panels
        except DataError:
            continue
        assert good is not None
        assert found is not None
        assert all(np.array_equal(getattr(good, key), getattr(found, key)) for key in vars(good))


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damaged_checkpoint(trained: Path, tmp_path: Path, damage: str) -> None:
    """The one before it is taken; without any good one left, nothing is made up."""
    moments = random.Random(3)
    for file in ("weights.safetensors", "training.safetensors", "state.json"):
        folder = tmp_path / file
        shutil.copytree(trained, folder)
        (folder / "weights.safetensors").unlink()
        newest, older = sorted((folder / "checkpoints").iterdir(), reverse=True)
        _damage(newest / file, damage, moments)
        with pytest.warns(UserWarning, match="Resuming from the previous checkpoint"):
            work.train(folder)
        assert work.result(folder) == work.result(trained)
        for checkpoint in (folder / "checkpoints").iterdir():
            _damage(checkpoint / file, damage, moments)
        with pytest.raises(DataError, match="no other checkpoint is left"):
            work.train(folder)
        assert older.name.startswith("step-")


def _damage(path: Path, damage: str, moments: random.Random) -> None:
    content = path.read_bytes()
    at = moments.randrange(len(content))
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[:at])
    else:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << moments.randrange(8)]) + content[at + 1 :])


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damaged_dataset_cache(tiny_mnist: TinyMnist, tmp_path: Path, damage: str) -> None:  # noqa: F811
    """A damaged file of the cache is never used: the data comes from its source, and the cache is whole again."""
    root = tiny_mnist.write(tmp_path / "root", packed=True)
    spec, moments = tiny_mnist.spec(tiny_mnist.root()), random.Random(5)
    cached = Request(cache=tmp_path / "cache")
    good, _ = obtain(spec, "train", Request(root=root, cache=tmp_path / "cache"))
    for _ in range(30):
        assert obtain(spec, "train", cached)[1].name == "cache"
        _damage(tmp_path / "cache" / "mnist-train.npz", damage, moments)
        try:
            found, _ = obtain(spec, "train", cached)
            assert found.checksum() == good.checksum()  # a bit that zip does not use
        except DataError as error:
            assert "cache" in str(error)  # noqa: PT017 - either is fine
        found, _ = obtain(spec, "train", Request(root=root, cache=tmp_path / "cache"))
        assert found.checksum() == good.checksum()
        if damage == "flip":  # where the flip does no harm, the cache answers and is not written again
            (tmp_path / "cache" / "mnist-train.npz").unlink()
            obtain(spec, "train", Request(root=root, cache=tmp_path / "cache"))


# ---- two at once ----


@pytest.mark.parametrize("job", ["train", "evaluate"])
def test_a_second_process_is_refused_with_the_pid_of_the_first(trained: Path, tmp_path: Path, job: str) -> None:
    folder, locks = tmp_path / "run", {LOCK, OWNER}
    shutil.copytree(trained, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name not in locks}
    ready, release = work.PROCESSES.Event(), work.PROCESSES.Event()
    owner = work.in_process(_hold, folder, ready, release)
    assert ready.wait(work.PATIENCE)
    with pytest.raises(RunDirectoryBusyError, match=f"in use by process {owner.pid} on"):
        JOBS[job](folder)
    assert {path: path.read_bytes() for path in before} == before
    assert set(before) | {folder / name for name in locks} == {path for path in folder.rglob("*") if path.is_file()}
    owner.kill()
    owner.join()
    JOBS[job](folder)


def _hold(folder: Path, ready: Any, release: Any) -> None:
    with locked(folder):
        ready.set()
        release.wait(work.PATIENCE)


def test_a_second_run_into_the_same_folder_names_the_first(tmp_path: Path) -> None:
    """Not only resumed ones: a new run into the folder of a running one is told who is there."""
    with locked(tmp_path / "run"), pytest.raises(RunDirectoryBusyError, match=f"process {os.getpid()} on"):
        run_training(make_config("digits/natural", overrides=work.SMALL), tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "config.toml").exists()


# ---- time ----


def test_a_clock_that_goes_back(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is an hour before the last, and the newer checkpoint has the older date."""
    hour, now = iter(range(10**6)), time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600 * next(hour))
    folder = tmp_path / "run"
    with contextlib.suppress(KeyboardInterrupt), monkeypatch.context() as patch:
        from holdfast.training.session import Session

        finish_step = Session.finish_step

        def stop_at_nine(session: Session) -> None:
            finish_step(session)
            if session.step == 9:
                raise KeyboardInterrupt

        patch.setattr(Session, "finish_step", stop_at_nine)
        work.train(folder)
    for age, checkpoint in enumerate(sorted((folder / "checkpoints").iterdir())):
        for path in (checkpoint, *checkpoint.iterdir()):
            os.utime(path, (now - 10**6 * age, now - 10**6 * age))
    work.train(folder)
    work.evaluate(folder)
    assert work.result(folder) == work.result(measured)


# ---- told to stop ----


def test_sigterm_during_checkpoint_writes(trained: Path, tmp_path: Path) -> None:
    """SIGTERM at each of the first calls that force a checkpoint to disk: it is finished, the run stops and goes on."""
    for at in range(3, 40, 1 if work.LONG else 9):
        folder = tmp_path / str(at)
        process = work.in_process(_train_with_sigterm, folder, at)
        process.join(work.PATIENCE)
        assert process.exitcode == 130
        work.check_whole(folder)
        assert work.unfinished(folder) == []
        work.train(folder)
        assert work.result(folder) == work.result(trained), at


def _train_with_sigterm(folder: Path, at: int) -> None:
    from holdfast.training import Interrupted

    original, calls = os.fsync, 0

    def interrupting(handle: int) -> None:
        nonlocal calls
        inside = "checkpoints" in os.readlink(f"/proc/self/fd/{handle}")
        calls += inside
        if inside and calls == at:
            signal.raise_signal(signal.SIGTERM)
        original(handle)

    os.fsync = interrupting
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        work.train(folder)
    except Interrupted:
        os._exit(130)
