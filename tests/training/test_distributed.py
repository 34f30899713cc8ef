"""Two processes are one process with the same global batch, and stop together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.training import ranks
from tests.training.stand_in import digits, train, two_processes

from holdfast.errors import HoldfastError, InputError
from holdfast.training import Processes, current, joined, pick_device, read_log


def together(function, *arguments, **options) -> None:
    processes = two_processes(function, *arguments, **options)
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]


def check_weights(folder: Path) -> None:
    """Both processes hold the same bits, and those of one process up to rounding; one log, written by one."""
    first, second = (safetensors.torch.load_file(folder / f"weights-{rank}") for rank in (0, 1))
    objective, result = train(folder / "single", loader=digits(**ranks.UNEVEN), **ranks.OPTIONS)
    for name, value in objective.model.state_dict().items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], value, atol=1e-5, rtol=1e-5)
    one, two = read_log(folder / "single" / "log.jsonl"), read_log(folder / "run" / "log.jsonl")
    assert [record["step"] for record in two] == list(range(1, 12))
    for a, b in zip(one, two, strict=True):
        assert b["parts"] == pytest.approx(a["parts"], abs=1e-5)
    (passes, _) = (folder / "result-0").read_text().split()
    assert int(passes) >= result.example_passes  # an empty slice still sends one image through


def test_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(["", *sys.path])}
    done = subprocess.run(
        [*command, "-m", "tests.training.ranks", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    check_weights(tmp_path)


def test_stop_at_the_same_step_and_resume(tmp_path: Path) -> None:
    together(ranks.run_signalled, tmp_path)
    errors = [(tmp_path / f"error-{rank}").read_text() for rank in (0, 1)]
    assert errors[0].startswith("Interrupted 5: stopped by a signal to another process")
    assert errors[1].startswith("Interrupted 5: stopped by SIGTERM")
    together(ranks.run, tmp_path, resume=True)
    check_weights(tmp_path)


def test_one_bad_process_stops_both(tmp_path: Path) -> None:
    together(ranks.run_poisoned, tmp_path)
    assert all("the loss became nan at step 5" in (tmp_path / f"error-{rank}").read_text() for rank in (0, 1))


def test_unused_parameters_are_named(tmp_path: Path) -> None:
    together(ranks.run_unused, tmp_path)
    assert all("model.spare.weight" in (tmp_path / f"error-{rank}").read_text() for rank in (0, 1))


def test_what_the_leader_refuses_all_refuse(tmp_path: Path) -> None:
    train(tmp_path / "run")
    together(ranks.run, tmp_path)
    assert "resume=True" in (tmp_path / "error-0").read_text()
    assert "rank 0" in (tmp_path / "error-1").read_text()


def test_alone() -> None:
    processes = current()
    assert processes == Processes(0, 1)
    assert processes.sum(1.0, 2) == [1.0, 2]
    x = torch.zeros(3, 1, 2, 2)
    assert processes.take(x, torch.zeros(3), torch.arange(3))[3] == 1.0
    with joined(torch.device("cpu")) as same:
        assert same == processes
    with pytest.raises(HoldfastError, match="full"):
        processes.leading(lambda: (_ for _ in ()).throw(HoldfastError("full")))


def test_devices() -> None:
    assert pick_device("auto").type in ("cpu", "cuda")
    assert pick_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="a device this machine has, got 'gpu'"):
        pick_device("gpu")
