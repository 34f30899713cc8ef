"""Jobs: train and evaluate independent runs sequentially, in parallel processes, or on a Slurm cluster.

A job is a preset, a seed and a run directory. Finished parts are skipped, so an interrupted command resumes where it
stopped. The same function, `run_job`, runs on this machine and on a Slurm node.
"""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import expected
from holdfast.experiment.layout import CONFIG, EXAMPLES, LOG, PROVENANCE, SUMMARY, WEIGHTS, has_checkpoint, start_preset

if TYPE_CHECKING:
    from holdfast.config import RunConfig

PATIENCE = 60.0
"""Seconds an interrupted run has to save a checkpoint before its process is killed."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train and, if `measured`, to evaluate.

    `changes` are overrides of the preset's config; `options` are the fields of `MeasureOptions`. A run that other runs
    only start from has `measured=False`.
    """

    preset: str
    folder: Path
    seed: int = 0
    changes: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    measured: bool = True

    @property
    def finished(self) -> bool:
        """Whether everything requested is done: the weights, or, if `measured`, the summary (and the quality)."""
        if not self.measured:
            return self.trained
        try:
            summary = json.loads((self.folder / SUMMARY).read_bytes())
        except (OSError, ValueError):
            return False
        return "quality" in summary or not self.options.get("quality")

    @property
    def trained(self) -> bool:
        """Whether training is finished and its last file is written."""
        return _is_trained(self.folder / WEIGHTS)

    @property
    def begun(self) -> bool:
        """Whether training has a checkpoint to resume from, so that the initial weights are no longer needed."""
        return has_checkpoint(self.folder)

    def start(self) -> "Job | None":
        """The job of the run that this one is initialised from, which is only trained; None if there is none."""
        from holdfast.config import run_name

        config = self.config()
        preset = start_preset(config)
        if preset is None or config.train.init is None:
            return None
        folder = self.folder.parent / run_name(config.train.init, self.seed)
        changes = tuple((key, value) for key, value in self.changes if key != "train.init")
        return Job(preset=preset, folder=folder, seed=self.seed, changes=changes, measured=False)

    def config(self) -> "RunConfig":
        """The config: the preset with the seed and the changes applied."""
        from holdfast.config import make_config

        return make_config(self.preset, overrides=[("seed", str(self.seed)), *self.changes])

    def check(self) -> None:
        """Raise InputError if the folder holds a run with other settings, whose results would be mislabelled."""
        from holdfast.config import complete, config_from_file

        file = self.folder / CONFIG
        if not file.exists():
            return
        was, now = complete(config_from_file(file)), complete(self.config())
        if was.evaluate.apgd is None:  # measured before there was APGD: its other results are those of the preset
            now = now.model_copy(update={"evaluate": now.evaluate.model_copy(update={"apgd": None})})
        # A run that is not evaluated may differ in its evaluation settings.
        parts = ("preset", "seed", "method", "train", *(("evaluate",) if self.measured else ()))
        changed = [part for part in parts if getattr(was, part) != getattr(now, part)]
        if changed:
            got = f"a run with another {', '.join(changed)}"
            raise expected(f"{self.folder} to hold {self.preset} as requested", got=got, fix="use another --out")


@dataclass(frozen=True)
class Progress:
    """Progress of a job, read from the files it writes."""

    steps_done: int
    steps: int
    rows: int


def dependency_waves(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group jobs into waves, so that each job depends only on earlier waves.

    Runs that the given jobs are initialised from are added if they are missing.
    """
    depth: dict[Path, int] = {}
    found = {job.folder: job for job in jobs}

    def visit(job: Job) -> int:
        start = None if job.finished or job.trained or job.begun else job.start()
        if job.folder not in depth:
            depth[job.folder] = 0 if start is None else 1 + visit(found.setdefault(start.folder, start))
        return depth[job.folder]

    for job in jobs:
        visit(job)
    return [[job for job in found.values() if depth[job.folder] == d] for d in sorted(set(depth.values()))]


def run_job(job: Job, threads: int | None = None) -> Path:
    """Train unless the weights exist, evaluate unless the summary exists; return the run directory."""
    import torch

    from holdfast.experiment.measure import MeasureOptions, measure
    from holdfast.experiment.run import run_training

    if threads is not None:
        torch.set_num_threads(threads)
    job.check()
    if not job.trained:
        started = (job.folder / CONFIG).exists()
        again = "run the same command again"
        run_training(job.config(), job.folder, resume=started, progress=False, resume_command=again)
    if not job.finished:
        measure(job.folder, MeasureOptions(**job.options))
    return job.folder


def _is_trained(weights: Path) -> bool:
    """Whether training is finished: the weights are written first, the cost in provenance.json after them."""
    if not weights.exists():
        return False
    try:
        noted = bool(json.loads((weights.parent / PROVENANCE).read_bytes())["finished"])
    except (OSError, ValueError, KeyError, TypeError):
        noted = False
    return noted or not (weights.parent / "checkpoints").is_dir()  # without checkpoints it cannot resume


def progress_of(job: Job, steps: int) -> Progress:
    """Steps logged and rows written so far."""
    return Progress(_last_step(job.folder / LOG), steps, _lines(job.folder / EXAMPLES))


def run_local(jobs: Sequence[Job], *, workers: int, watch: Callable[[], None] = lambda: None) -> list[Path]:
    """Run all jobs in `workers` processes on this machine and call `watch` about twice per second.

    The first error stops all jobs. With several workers each process uses one thread: for small networks, two parallel
    runs are faster than one run with two threads.
    """
    todo = _unfinished(jobs)
    if workers <= 1:
        for job in todo:
            with _watched(watch):
                run_job(job)
        return [job.folder for job in jobs]
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_quiet_worker)
    try:
        _wait({pool.submit(run_job, job, 1) for job in todo}, watch)
    except BaseException:
        _stop(pool)
        raise
    pool.shutdown()
    return [job.folder for job in jobs]


def _unfinished(jobs: Sequence[Job]) -> list[Job]:
    for job in jobs:
        job.check()
    return [job for job in jobs if not job.finished]


def _stop(pool: ProcessPoolExecutor) -> None:
    """Stop the workers. Training saves a checkpoint on SIGTERM; the rows of an evaluation are already on disk.

    The first SIGTERM only makes a training loop save and end its job; the worker process then waits for its next job.
    The signal is therefore repeated until the process has ended.
    """
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    deadline = time.monotonic() + PATIENCE
    while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
        for worker in workers:
            worker.terminate()
        time.sleep(0.3)
    for worker in workers:
        worker.kill()
        worker.join()


def run_submitit(jobs: Sequence[Job], *, workers: int, watch: Callable[[], None] = lambda: None) -> list[Path]:
    """Submit every unfinished job to a Slurm cluster with submitit and wait for all of them."""
    try:
        import submitit
    except ImportError as error:
        raise expected("the package submitit", got="none", fix="pip install 'holdfast[slurm]'") from error
    todo = _unfinished(jobs)
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
    """Ignore Ctrl-C in a worker; its parent process handles it and stops the worker with SIGTERM."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _watched(watch: Callable[[], None]) -> Iterator[None]:
    """Call `watch` from a background thread while the block runs."""
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
