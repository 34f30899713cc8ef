"""Ctrl-C, SIGTERM and a second process: the run stops in order, says how to go on, and nobody is in the way."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.training.stand_in import PROCESSES, in_process, same_weights, train, train_and_report

from holdfast.errors import HoldfastError
from holdfast.storage.lock import locked
from holdfast.training import Interrupted, RunDirectoryBusyError, read_log

COMMAND = "holdfast train digits/erar --out runs/a --resume"


def signal_at(calls: int, number: signal.Signals):
    def at_step(objective) -> None:
        if objective.calls == calls:
            signal.raise_signal(number)

    return at_step


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_and_saves(tmp_path: Path, number: signal.Signals, capfd) -> None:
    whole, _ = train()
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Interrupted, match=f"stopped by {number.name} after step 3.*{COMMAND}$") as stop:
        train(tmp_path, at_step=signal_at(2, number), resume_command=COMMAND)
    assert (stop.value.step, stop.value.signal) == (3, number.name)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
    assert (tmp_path / "checkpoints" / "step-00000003").is_dir()
    assert "finishing this step" in capfd.readouterr().err
    resumed, _ = train(tmp_path, resume=True)
    assert same_weights(whole, resumed)
    assert [record["step"] for record in read_log(tmp_path / "log.jsonl")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    options = {"steps": 3000, "checkpoint_every": None, "log_every": 1, "warm_up": 0.0}
    process = in_process(train_and_report, tmp_path, resume_command=COMMAND, **options)
    wait_for(lambda: len(read_log(tmp_path / "log.jsonl")) > 3)
    os.kill(process.pid, number)
    process.join(20)
    assert process.exitcode == 130
    message = (tmp_path / "message").read_text()
    assert number.name in message
    assert COMMAND in message
    assert "[restored: True]" in message
    steps = len(read_log(tmp_path / "log.jsonl"))
    resumed, _ = train(tmp_path, resume=True, **(options | {"steps": steps + 2}))
    whole, _ = train(**(options | {"steps": steps + 2}))
    assert same_weights(whole, resumed)


def test_sigterm_in_the_middle_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = train()
    original, calls = os.fsync, 0

    def interrupting(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 12:  # inside the checkpoint after two steps
            signal.raise_signal(signal.SIGTERM)
        original(handle)

    monkeypatch.setattr(os, "fsync", interrupting)
    with pytest.raises(Interrupted) as stop:
        train(tmp_path)
    assert stop.value.step == 3
    resumed, _ = train(tmp_path, resume=True)
    assert same_weights(whole, resumed)


def test_a_signal_without_a_run_directory(capfd) -> None:
    with pytest.raises(Interrupted, match="nothing is saved"):
        train(at_step=signal_at(1, signal.SIGTERM))


def test_a_signal_in_the_last_step_changes_nothing(tmp_path: Path, capfd) -> None:
    _, result = train(tmp_path, at_step=signal_at(5, signal.SIGINT))
    assert result.step == 6


def test_training_in_a_thread_leaves_signals_alone() -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(train()[1].step))
    thread.start()
    thread.join()
    assert results == [6]


def test_two_in_one_process_are_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(RunDirectoryBusyError, match=str(os.getpid())):
        train(tmp_path)
    train(tmp_path)


def hold(run_dir: Path, ready, release) -> None:
    with locked(run_dir):
        ready.set()
        release.wait(20)


def test_a_second_process_is_refused_with_the_owners_pid(tmp_path: Path) -> None:
    ready, release = PROCESSES.Event(), PROCESSES.Event()
    process = in_process(hold, tmp_path, ready, release)
    assert ready.wait(20)
    with pytest.raises(RunDirectoryBusyError, match=f"process {process.pid} "):
        train(tmp_path)
    process.kill()
    process.join()
    train(tmp_path)  # a killed owner is no owner


def test_a_run_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError, match="expected a run directory to write to"):
        train(tmp_path / "file" / "run")


def wait_for(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
