"""What each of two processes runs in test_shards.py."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tests.faults.work import OPTIONS, SMALL

import holdfast as hf
from holdfast.config import make_config
from holdfast.errors import HoldfastError
from holdfast.experiment.measure import measure
from holdfast.experiment.run import run_training
from holdfast.training import Processes, joined, pick_device

WITH_QUALITY = replace(OPTIONS, quality=True, diagnose=2, limit=18, strongest=True, strongest_limit=6, passes=30)


def trained(folder: Path, steps: int = 6) -> Path:
    torch.set_num_threads(1)
    small = [*((key, value) for key, value in SMALL if key != "train.steps"), ("evaluate.apgd.steps", "3")]
    run_training(make_config("digits/madry", overrides=[*small, ("train.steps", str(steps))]), folder, progress=False)
    return folder


def evaluate(folder: Path) -> None:
    """Evaluate, and note an error in a file named after the rank."""
    rank = os.environ["RANK"]
    try:
        done = measure(folder, WITH_QUALITY)
    except HoldfastError as error:
        Path(f"{folder}.error-{rank}").write_text(f"{type(error).__name__}: {error}")
        raise SystemExit(2) from None
    Path(f"{folder}.rows-{rank}").write_text(f"{len(done.rows)} {done.summary['quality']['insertion']['median']!r}")


def evaluate_and_lose_one(folder: Path) -> None:
    """Process 1 is killed in the second round, as soon as the rows of the first are written."""
    if os.environ["RANK"] == "1":
        original = Processes.each

        def each(self: Processes, action: Any) -> Any:
            rows = folder / "examples.csv"
            if rows.exists() and rows.read_bytes().count(b"\n") > 9:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(self, action)

        Processes.each = each  # type: ignore[method-assign]
    evaluate(folder)


def evaluate_other_network(folder: Path) -> None:
    """Process 1 has other weights than process 0."""
    evaluate(folder if os.environ["RANK"] == "0" else Path(f"{folder}-other"))


def collect(folder: Path) -> None:
    """The collective operations, with their results in files."""
    with joined(pick_device("cpu")) as who:
        found = [
            who.gather({"rank": who.rank, "text": "ä" * (1 + 5 * who.rank), "number": 0.1 + who.rank}),
            who.shared(lambda: [who.rank, None]),
            list(who.rounds("abcde")),
            who.each(lambda: who.rank),
        ]
        try:
            who.each(lambda: 1 // (1 - who.rank))
        except (ZeroDivisionError, hf.HoldfastError) as error:
            found.append(str(error))
        (folder / f"found-{who.rank}").write_text(repr(found))


def train_and_lose_one(folder: Path) -> None:
    """Process 1 is killed in the middle of training, between two collective calls."""
    if os.environ["RANK"] == "1":
        original = Processes.sum

        def late(self: Processes, *values: float) -> list[float]:
            if any((folder / "checkpoints").glob("step-00000006")):
                time.sleep(0.1)
                os.kill(os.getpid(), signal.SIGKILL)
            return original(self, *values)

        Processes.sum = late  # type: ignore[method-assign]
    try:
        run_training(make_config("digits/madry", overrides=SMALL), folder, resume=folder.exists(), progress=False)
    except HoldfastError as error:
        Path(f"{folder}.error-{os.environ['RANK']}").write_text(f"{type(error).__name__}: {error}")
        raise SystemExit(2) from None
