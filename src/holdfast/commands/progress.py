"""Progress of several runs at once, read from the files they write; silent when nobody is watching."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.jobs import Job


def run_with_progress(
    jobs: "Sequence[Job]",
    *,
    steps: int,
    rows: int,
    workers: int,
    console: "Console",
    launcher: str = "local",
) -> None:
    """Run the jobs with one bar each: training fills the first half, measuring the second."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from holdfast.jobs import LAUNCHERS, progress_of

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[doing]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = {job.folder: bars.add_task(_label(job), total=2.0, doing="waiting") for job in jobs}

        def look() -> None:
            for job in jobs:
                _update(bars, tasks[job.folder], progress_of(job, steps), rows, job.finished)

        look()
        LAUNCHERS[launcher](jobs, workers=workers, watch=look)
        look()


def _label(job: "Job") -> str:
    return f"{job.preset} (seed {job.seed})" if job.seed else job.preset


def _update(bars: Any, task: Any, done: Any, rows: int, finished: bool) -> None:
    trained, measured = min(1.0, done.steps_done / max(1, done.steps)), min(1.0, done.rows / max(1, rows))
    doing = "waiting"
    if finished:
        trained = measured = 1.0
        doing = "done"
    elif done.rows:
        doing = f"attacking explanations {measured:.0%}"
    elif trained >= 1:
        doing = "measuring accuracy"
    elif done.steps_done:
        doing = f"training {done.steps_done}/{done.steps}"
    bars.update(task, completed=trained + measured, doing=doing)
