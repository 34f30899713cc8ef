"""Jobs: independent runs to train and evaluate, in an order that respects which run starts from which.

A job is a preset, a seed and a run directory. Finished parts are skipped, so an interrupted command resumes where it
stopped. The same function, `run_job`, runs on this machine (`local.py`) and on a Slurm node (`slurm.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import expected
from holdfast.experiment.layout import (
    ACCURACY,
    CHECKPOINTS,
    CONFIG,
    EXAMPLES,
    LOG,
    PROVENANCE,
    SUMMARY,
    WEIGHTS,
    has_checkpoint,
    start_preset,
)
from holdfast.runs.names import CENTRED_CONTROL

if TYPE_CHECKING:
    from holdfast.config import RunConfig
    from holdfast.config.schema import Evaluate


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
    def label(self) -> str:
        """The preset, and the seed unless it is 0."""
        return f"{self.preset} (seed {self.seed})" if self.seed else self.preset

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
        now = now.model_copy(update={"evaluate": _without_later(now.evaluate, was.evaluate)})
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


def unfinished(jobs: Sequence[Job]) -> list[Job]:
    """The jobs with something left to do; raises InputError if a folder holds a run with other settings."""
    for job in jobs:
        job.check()
    return [job for job in jobs if not job.finished]


def run_job(job: Job, threads: int | None = None) -> Path:
    """Train unless the weights exist, evaluate unless the summary exists; return the run directory.

    In a process group all processes call it; rank 0 decides what is left to do.
    """
    import torch

    from holdfast.experiment.measure import MeasureOptions, measure
    from holdfast.experiment.run import run_training
    from holdfast.training import joined, pick_device

    if threads is not None:
        torch.set_num_threads(threads)
    job.check()
    config = job.config()
    with joined(pick_device(config.train.device)) as processes:
        trained, started = processes.shared(lambda: [job.trained, (job.folder / CONFIG).exists()])
        if not trained:
            again = "run the same command again"
            run_training(config, job.folder, resume=started, progress=False, resume_command=again)
        if not processes.shared(lambda: job.finished):
            measure(job.folder, MeasureOptions(**job.options))
    return job.folder


def _without_later(now: "Evaluate", was: "Evaluate") -> "Evaluate":
    """The evaluation of a preset without what it got later than the run; the other results are those of the preset."""
    later: dict[str, Any] = {"apgd": None} if was.apgd is None else {}
    if now.attacks and was.attacks == tuple(name for name in now.attacks if name != CENTRED_CONTROL):
        later["attacks"] = was.attacks
    return now.model_copy(update=later)


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
    """Steps logged, all of them once it is trained, and rows written so far."""
    done = max(_last_step(job.folder / LOG), steps if job.trained else 0)
    return Progress(done, steps, _lines(job.folder / EXAMPLES))


def work_done(job: Job) -> tuple[int, ...]:
    """What survives the end of the job's process: steps in the newest checkpoint, training finished, rows on disk."""
    steps = [int(path.name.partition("-")[2]) for path in (job.folder / CHECKPOINTS).glob("step-*")]
    return (max(steps, default=0), int(job.trained), *(_lines(job.folder / name) for name in (ACCURACY, EXAMPLES)))


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
