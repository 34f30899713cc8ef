"""What a job asks Slurm for, how its states read, and a machine without Slurm; `tests/slurm` has the real thing."""

import os
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.experiment.jobs import Job, work_done
from holdfast.experiment.slurm import run_slurm
from holdfast.experiment.slurm_job import SAVE_SECONDS, SlurmSettings
from holdfast.experiment.slurm_queue import JobState, has_accounting


def test_states_in_words() -> None:
    assert str(JobState("PENDING", reason="Priority")) == "queued"
    assert str(JobState("PENDING", reason="AssocGrpCpuLimit")) == "queued (AssocGrpCpuLimit)"
    assert str(JobState("RUNNING", "node7")) == "running on node7"
    assert not JobState("REQUEUED").over
    assert not JobState("COMPLETING").over
    over = {"CANCELLED": "was cancelled", "TIMEOUT": "ran out of time", "NODE_FAIL": "lost its node"}
    for state, words in over.items():
        assert JobState(state).over
        assert str(JobState(state)) == words
    for state in ("OUT_OF_MEMORY", "PREEMPTED", "FAILED", "COMPLETED", "BOOT_FAIL", "DEADLINE"):
        assert JobState(state).over


@pytest.mark.parametrize(
    ("value", "kept"),
    [("accounting_storage/slurmdbd", True), ("accounting_storage/none", False), ("(null)", False), ("", False)],
)
def test_accounting_is_read_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, kept: bool
) -> None:
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho 'AccountingStorageType   = {value}'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert has_accounting() is kept


def test_parameters() -> None:
    asked = SlurmSettings(partition="gpu", gpus=4, hours=1.5, memory=0.5).parameters(cores=8)
    assert asked["time"] == 90
    assert (asked["cpus_per_task"], asked["ntasks_per_node"], asked["gpus_per_node"]) == (8, 4, 4)
    assert asked["mem"] == "512M"
    assert asked["signal_delay_s"] == SAVE_SECONDS
    assert "account" not in asked
    short = SlurmSettings(hours=0.001).parameters(cores=1)
    assert (short["time"], short["signal_delay_s"]) == (1, 15)
    assert "gpus_per_node" not in short
    assert any("OMP_NUM_THREADS=1 " in line for line in short["setup"])
    for bad in (SlurmSettings(hours=0), SlurmSettings(gpus=-1)):
        with pytest.raises(hf.InputError, match=r"--slurm\."):
            bad.parameters(cores=1)


def test_a_machine_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    job = Job(preset="digits/natural:cpu", folder=tmp_path / "run")
    with pytest.raises(hf.InputError, match="expected a Slurm cluster, got a machine without sbatch"):
        run_slurm([job], cores=1, logs=tmp_path / "submitit")
    assert not (tmp_path / "submitit").exists()


def test_options_of_slurm_need_its_launcher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "digits", "--slurm.gpus", "1", "--out", str(tmp_path)]) == 2
    assert "--slurm.* only with --launcher submitit" in capsys.readouterr().err


def test_work_done_reads_checkpoints_and_rows(tmp_path: Path) -> None:
    job = Job(preset="digits/natural:cpu", folder=tmp_path)
    assert work_done(job) == (0, 0, 0, 0)
    (tmp_path / "checkpoints" / "step-00000007").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-00000012").mkdir()
    (tmp_path / "examples.csv").write_text("header\nrow\nrow\n")
    assert work_done(job) == (12, 0, 0, 2)
