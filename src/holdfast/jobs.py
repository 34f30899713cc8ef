"""Independent runs, trained and measured one after the other, side by side, or on a cluster.

A job is a preset, a seed and a run directory. What is already there is skipped, so a killed command goes on where it
stopped; the same function runs on this machine and on a Slurm node.
"""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, expected

SUMMARY, LOG, EXAMPLES = "summary.json", "log.jsonl", "examples.csv"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train and measure. `changes` are overrides of the preset's config, `options` of the measurement."""

    preset: str
    folder: Path
    seed: int = 0
    changes: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the measurement is there."""
        return (self.folder / SUMMARY).exists()


@dataclass(frozen=True)
class Progress:
    """How far a job is, read from the files it writes."""

    steps_done: int
    steps: int
    rows: int


def run_job(job: Job, threads: int | None = None) -> Path:
    """Train unless the weights are there, measure unless the summary is there; the run directory."""
    import torch

    from holdfast.config import make_config
    from holdfast.experiment import WEIGHTS, run_training
    from holdfast.measure import MeasureOptions, measure

    if threads is not None:
        torch.set_num_threads(threads)
    if not (job.folder / WEIGHTS).exists():
        config = make_config(job.preset, overrides=[("seed", str(job.seed)), *job.changes])
        started = (job.folder / "config.toml").exists()
        run_training(config, job.folder, resume=started, progress=False)
    if not job.finished:
        measure(job.folder, MeasureOptions(**job.options))
    return job.folder


def progress_of(job: Job, steps: int) -> Progress:
    """Steps logged and rows written so far."""
    return Progress(_last_step(job.folder / LOG), steps, _lines(job.folder / EXAMPLES))


def run_local(jobs: Sequence[Job], *, workers: int, watch: Callable[[], None] = lambda: None) -> list[Path]:
    """Run all jobs in `workers` processes of this machine, calling `watch` about twice a second; first error wins.

    With several workers each gets one thread: small networks gain more from two runs side by side than from two
    threads for one.
    """
    todo = [job for job in jobs if not job.finished]
    if workers <= 1 or len(todo) <= 1:
        for job in todo:
            with _watched(watch):
                run_job(job)
        return [job.folder for job in jobs]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_quiet_worker) as pool:
        running = {pool.submit(run_job, job, 1) for job in todo}
        try:
            _wait(running, watch)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [job.folder for job in jobs]


def run_submitit(jobs: Sequence[Job], *, workers: int, watch: Callable[[], None] = lambda: None) -> list[Path]:
    """Send every unfinished job to the Slurm cluster by submitit and wait for all of them."""
    try:
        import submitit
    except ImportError as error:
        raise expected("the package submitit", got="none", fix="pip install 'holdfast[slurm]'") from error
    todo = [job for job in jobs if not job.finished]
    folder = Path(os.path.commonpath([job.folder.resolve() for job in jobs])) / "submitit"
    executor = submitit.AutoExecutor(folder=folder)
    executor.update_parameters(name="holdfast", cpus_per_task=workers, timeout_min=24 * 60)
    for sent in executor.map_array(run_job, todo) if todo else []:
        sent.result()
        watch()
    return [job.folder for job in jobs]


LAUNCHERS: Mapping[str, Callable[..., list[Path]]] = {"local": run_local, "submitit": run_submitit}


def _wait(running: set[Future[Path]], watch: Callable[[], None]) -> None:
    while running:
        done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        watch()
        for future in done:
            future.result()


def _quiet_worker() -> None:
    """A worker leaves Ctrl-C to its parent, which stops it; its own run is saved by SIGTERM's handler."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _watched(watch: Callable[[], None]) -> Iterator[None]:
    """Call `watch` from a thread while the block runs in this one."""
    import threading

    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            watch()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        watch()


def _last_step(path: Path) -> int:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0


def _lines(path: Path) -> int:
    try:
        return max(0, path.read_bytes().count(b"\n") - 1)
    except OSError:
        return 0


__all__ = ["LAUNCHERS", "HoldfastError", "Job", "Progress", "progress_of", "run_job", "run_local", "run_submitit"]
