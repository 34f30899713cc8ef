"""torchrun over two hosts: train, evaluate and audit, and what is left when one host goes away."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.evaluation import shards
from tests.evaluation.test_shards import same
from tests.faults.work import SMALL
from tests.hosts.namespaces import TwoHosts, missing

import holdfast as hf
from holdfast.cli import main

REASON = missing()
LONG = "minutes of two hosts: HOLDFAST_LONG=1 (make test-long) runs it"
pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.skipif(not os.environ.get("HOLDFAST_LONG"), reason=LONG),
    pytest.mark.timeout(3000),
]

OPTIONS = [word for key, value in SMALL for word in (f"--{key}", value)]
FEW = ["--limit", "10", "--pgd-limit", "12", "--no-strongest", "--quiet"]


@pytest.fixture(scope="module")
def hosts():
    with TwoHosts() as both:
        yield both


def ended(processes, folder: Path, patience: float = 900) -> list[int]:
    codes = [process.wait(patience) for process in processes]
    said = "\n".join((folder / f"host-{host}.txt").read_text()[-1500:] for host in (0, 1))
    assert codes == [0, 0], said
    return codes


def test_train_evaluate_audit(hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, alone = tmp_path / "run", tmp_path / "alone"
    train = ["train", "digits/madry", "--quiet", *OPTIONS]
    ended(hosts.torchrun(tmp_path / "train", *train, "--out", str(run)), tmp_path / "train")
    assert main([*train, "--out", str(alone)]) == 0
    two, one = (safetensors.torch.load_file(folder / "weights.safetensors") for folder in (run, alone))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-5, rtol=1e-5)

    (alone / "weights.safetensors").write_bytes((run / "weights.safetensors").read_bytes())
    (alone / "provenance.json").write_bytes((run / "provenance.json").read_bytes())
    ended(hosts.torchrun(tmp_path / "evaluate", "evaluate", str(run), *FEW), tmp_path / "evaluate")
    assert main(["evaluate", str(alone), *FEW]) == 0
    same(alone, run)

    digits = hf.data.load("digits", "test").subset(range(20))
    np.savez(tmp_path / "digits.npz", x_test=digits.x.numpy(), y_test=digits.y.numpy())
    audit = ["audit", "--model", str(run), "--data", str(tmp_path / "digits.npz"), "--labels", "predicted"]
    audit += ["--steps", "2", "--ig-steps", "3", "--eps", "0.1", "--no-strong", "--quiet"]
    ended(hosts.torchrun(tmp_path / "audit", *audit, "--out", str(tmp_path / "two" / "a")), tmp_path / "audit")
    words = [*audit, "--out", str(tmp_path / "one" / "a")]
    monkeypatch.setattr("sys.argv", ["holdfast", *words])  # the page repeats the command
    assert main(words) == 0
    same(tmp_path / "one" / "a", tmp_path / "two" / "a")


def test_a_host_that_goes_away_is_said_and_the_run_resumes(hosts: TwoHosts, tmp_path: Path) -> None:
    run = shards.trained(tmp_path / "run")
    words = ["evaluate", str(run), "--limit", "60", "--pgd-limit", "12", "--no-strongest", "--quiet"]
    both = hosts.torchrun(tmp_path / "said", *words, port=29501)
    rows, deadline = run / "examples.csv", time.monotonic() + 900
    while not (rows.exists() and rows.read_bytes().count(b"\n") > 8):
        assert time.monotonic() < deadline
        assert both[0].poll() is None, (tmp_path / "said" / "host-0.txt").read_text()
        time.sleep(0.05)
    for line in Path(f"/proc/{both[1].pid}/task/{both[1].pid}/children").read_text().split():
        os.kill(int(line), signal.SIGKILL)  # the process of rank 1, not its torchrun
    assert both[0].wait(900) != 0
    said = (tmp_path / "said" / "host-0.txt").read_text()
    assert "holdfast (process 0 of 2): another process ended before the work was done" in said
    before = rows.read_bytes()
    assert main(words) == 0
    assert rows.read_bytes().startswith(before)
    assert len(rows.read_bytes()) > len(before)
