"""A Slurm client (`sbatch`, `sinfo`) on a machine that no controller answers."""

import os
import shutil
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.experiment.jobs import Job
from holdfast.experiment.slurm import run_slurm

NOBODY = "ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nMessageTimeout=2\n"


def test_a_slurm_client_without_a_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    if shutil.which("sbatch"):  # the real client; nothing listens on port 1
        (tmp_path / "slurm.conf").write_text(NOBODY)
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    else:
        for name in ("sbatch", "sinfo"):
            (tmp_path / name).write_text(f"#!/bin/sh\necho '{name}: fatal: no configuration source' >&2\nexit 1\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    job = Job(preset="digits/natural:cpu", folder=tmp_path / "run")
    with pytest.raises(hf.InputError, match=r"expected a Slurm cluster that answers, got .*; .*--launcher local"):
        run_slurm([job], cores=1, logs=tmp_path / "submitit")
    assert not (tmp_path / "submitit").exists()
    assert not job.folder.exists()
