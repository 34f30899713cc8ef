"""Progress of several runs, read from the files they write: bars in a terminal, elsewhere a line per stage."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from holdfast.experiment.jobs import Job
    from holdfast.experiment.jobs import Progress as JobProgress


def run_with_progress(jobs: "Sequence[Job]", launch: "Callable[..., object]", *, rows: int, console: "Console") -> None:
    """Run the jobs with one bar per job: training fills the first half, evaluation the second.

    If the output is not a terminal, a line is printed whenever a job enters its next stage. `launch` is `run_local` or
    `run_slurm` with their own settings applied.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from holdfast.experiment.jobs import progress_of

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[doing]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = {job.folder: bars.add_task(job.label, total=2.0, doing="waiting") for job in jobs}

        steps = {job.folder: job.config().train.steps for job in jobs}
        stages: dict[Path, str] = {}

        def look() -> None:
            for job in jobs:
                share, doing = _stage(progress_of(job, steps[job.folder]), rows, job.finished)
                bars.update(tasks[job.folder], completed=share, doing=doing)
                stage = doing.rstrip("0123456789/% ")
                if not console.is_terminal and stages.setdefault(job.folder, stage) != stage:
                    console.print(f"{job.label}: {stage}", highlight=False, soft_wrap=True)
                stages[job.folder] = stage

        look()
        launch(jobs, watch=look)
        look()


@contextmanager
def measuring(console: "Console", quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show one bar per measurement; yields the callback (name, examples done, examples in total)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield tell


def _stage(done: "JobProgress", rows: int, finished: bool) -> tuple[float, str]:
    """How far a job is, from 0 to 2, and what it is doing."""
    trained, measured = min(1.0, done.steps_done / max(1, done.steps)), min(1.0, done.rows / max(1, rows))
    if finished:
        return 2.0, "done"
    if done.rows:
        return 1.0 + measured, f"attacking explanations {measured:.0%}"
    if trained >= 1:
        return 1.0, "measuring accuracy"
    return trained, f"training {done.steps_done}/{done.steps}" if done.steps_done else "waiting"
