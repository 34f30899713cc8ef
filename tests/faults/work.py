"""The four long jobs a user starts, each in a process of its own that can be killed, and how their results compare."""

import contextlib
import os
import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.data.conftest import TinyMnist
from tests.training.stand_in import PROCESSES, in_process
from tests.web import QUICK

from holdfast import cli
from holdfast.config import make_config
from holdfast.data.sources.kinds import Request
from holdfast.data.sources.obtain import obtain
from holdfast.errors import HoldfastError
from holdfast.experiment import tables
from holdfast.experiment.measure import MeasureOptions, measure
from holdfast.experiment.run import run_training
from holdfast.runs import read_json, read_log, read_panels, read_run
from holdfast.training.checkpoint import read_checkpoint, read_weights

__all__ = ["PROCESSES", "in_process"]

LONG = bool(os.environ.get("HOLDFAST_LONG"))
KILLS = 50 if LONG else 3
PATIENCE = 900.0
"""Seconds after which a process counts as hanging, also on a machine that has other things to do."""

SMALL = (
    ("train.steps", "24"),
    ("train.checkpoint_every", "3"),
    ("train.log_every", "2"),
    ("evaluate.batch_size", "4"),
    ("evaluate.ifia.steps", "3"),
    ("evaluate.ensemble.steps", "2"),
    ("evaluate.pgd.steps", "3"),
)
OPTIONS = MeasureOptions(limit=12, pgd_limit=16, strongest=False, panels=2)


def train(folder: Path) -> None:
    run_training(make_config("digits/madry", overrides=SMALL), folder, resume=folder.exists(), progress=False)


def evaluate(folder: Path) -> None:
    measure(folder, OPTIONS)


def reproduce(folder: Path) -> None:
    """`holdfast reproduce` with presets made small."""
    original = tables.PaperTable._job
    tables.PaperTable._job = lambda *a: replace(original(*a), changes=SMALL)  # type: ignore[method-assign]
    words = ["reproduce", "digits", "--methods", "natural", "madry", "--limit", "6", "--pgd-limit", "8"]
    code = cli.main([*words, "--out", str(folder)])
    if code:
        raise SystemExit(code)


def tiny_data() -> TinyMnist:
    noise = np.random.default_rng(0)
    images = {s: noise.integers(0, 256, (n, 40, 50), dtype=np.uint8) for s, n in (("train", 70), ("test", 30))}
    return TinyMnist(images, {s: (np.arange(len(x)) % 3).astype(np.uint8) for s, x in images.items()})


def fetch(folder: Path, url: str) -> None:
    data = tiny_data()
    spec = replace(data.spec(data.upstream(url)), image_shape=(1, 40, 50))
    for split in ("train", "test"):
        obtain(spec, split, Request(cache=folder, download=QUICK))


def quietly(work: Callable[..., None], folder: Path, *arguments: Any, file_limit: int = 0) -> None:
    """The target of the processes: what it says goes into a file beside the folder; exit code 2 for an error."""
    torch.set_num_threads(1)
    said = Path(f"{folder}.said").open("w")  # noqa: SIM115 - open as long as the process
    for number in (1, 2):
        os.dup2(said.fileno(), number)
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    try:
        work(folder, *arguments)
    except HoldfastError as error:
        with contextlib.suppress(OSError):
            Path(f"{folder}.error").write_text(str(error))
        os._exit(2)


def start(work: Callable[..., None], folder: Path, *arguments: Any, **options: Any) -> Any:
    return in_process(quietly, work, folder, *arguments, **options)


def finish(work: Callable[..., None], folder: Path, *arguments: Any, **options: Any) -> int:
    """Run to the end; the exit code."""
    process = start(work, folder, *arguments, **options)
    process.join(PATIENCE)
    hangs = process.exitcode is None
    process.kill()
    assert not hangs, f"it hangs; {said(folder)}"
    return int(process.exitcode)


def said(folder: Path) -> str:
    """What the last process printed, and the holdfast error it ended with."""
    texts = [path.read_text() for name in ("said", "error") if (path := Path(f"{folder}.{name}")).exists()]
    return "\n".join(texts)


def renew(folder: Path, origin: Path | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if origin is not None:
        shutil.copytree(origin, folder)


def result(folder: Path) -> dict[str, Any]:
    """Everything that has to be equal, bit for bit: weights, logs without times, rows, summaries, pictures, tables."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and "checkpoints" not in p.parts):
        name = str(path.relative_to(folder))
        if path.suffix in (".safetensors", ".csv", ".toml"):
            found[name] = path.read_bytes()
        elif path.name == "log.jsonl":
            found[name] = [{**entry, "seconds": 0} for entry in read_log(path).entries]
        elif path.name in ("summary.json", "measured.json"):
            found[name] = read_json(path) | {"provenance": 0, "train_seconds": 0}
        elif path.name == "panels.npz":
            found[name] = {key: np.asarray(value).tobytes() for key, value in vars(read_panels(path)).items()}
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = {key: arrays[key].tobytes() for key in arrays.files}
    return found


def check_whole(folder: Path) -> None:
    """Whatever has its final name is complete, at any moment."""
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".part-") or part == "downloads" for part in parts) or not path.is_file():
            continue
        if path.name == "state.json":
            read_checkpoint(path.parent)
        elif path.name == "weights.safetensors" and "checkpoints" not in parts:
            read_weights(path)
        elif path.suffix == ".json":
            read_json(path)
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                assert all(len(arrays[name].shape) >= 0 for name in arrays.files)
    for csv in folder.rglob("examples.csv"):
        assert len(read_run(csv.parent).examples.rows) >= 0


def unfinished(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".part-*")]
