"""The progress line in the terminal: steps, remaining time, parts of the loss. Hidden without a terminal."""

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressLine:
    """A live line on standard error, if that is a terminal and `show` is true."""

    def __init__(self, *, steps: int, done: int = 0, show: bool = True, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[parts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not (show and console.is_terminal),
        )
        self._task = self._bar.add_task("train", total=steps, completed=done, parts="")
        self._bar.start()

    def advance(self, step: int) -> None:
        self._bar.update(self._task, completed=step)

    def show(self, values: Mapping[str, float | None]) -> None:
        """Display the latest parts: losses as numbers, accuracies in per cent."""
        self._bar.update(self._task, parts="  ".join(_word(name, value) for name, value in values.items()))

    def close(self) -> None:
        self._bar.stop()


def _word(name: str, value: float | None) -> str:
    if value is None:
        return f"{name} -"
    return f"{name} {100 * value:.1f}%" if "accuracy" in name else f"{name} {value:.4g}"
