"""Shared by all tests: one thread a process, no global randomness, small networks with known answers."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# Examples are drawn anew from a fixed seed, so a failure here is a failure everywhere.
settings.register_profile(
    "holdfast", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("holdfast")

# Debian's and PyTorch's own threads would fight with the test processes for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def quiet_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts from the same global seed and cannot see the data cache of the person who runs it."""
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "no-data-cache"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
