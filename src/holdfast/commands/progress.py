"""Progress bars for several runs, read from the files they write; hidden if the output is not a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from holdfast.experiment.jobs import Job


def run_with_progress(
    jobs: "Sequence[Job]",
    *,
    steps: int,
    rows: int,
    workers: int,
    console: "Console",
    launcher: str = "local",
) -> None:
    """Run the jobs with one bar per job: training fills the first half, evaluation the second."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from holdfast.experiment.jobs import LAUNCHERS, progress_of

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[doing]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = {job.folder: bars.add_task(_label(job), total=2.0, doing="waiting") for job in jobs}

        def look() -> None:
            for job in jobs:
                _update(bars, tasks[job.folder], progress_of(job, steps), rows, job.finished)

        look()
        LAUNCHERS[launcher](jobs, workers=workers, watch=look)
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
