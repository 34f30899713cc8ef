"""Outputs of the records: the log, TensorBoard and the terminal. Only rank 0 writes them."""

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from holdfast.training.logbook import Logbook, Record
from holdfast.training.progress import ProgressLine
from holdfast.training.settings import FitSettings
from holdfast.training.tensorboard import Board

LOG = "log.jsonl"


class Sink(Protocol):
    """Receives records; `sync` flushes them to disk."""

    def write(self, record: Record) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class Outputs:
    """All sinks of a run and its progress line; `stack` closes them."""

    def __init__(self, settings: FitSettings, *, step: int, stack: ExitStack) -> None:
        self._sinks = _sinks(settings.folder, step, tensorboard=settings.tensorboard)
        for sink in self._sinks:
            stack.callback(sink.close)
        self._progress = ProgressLine(steps=settings.steps, done=step, show=settings.progress)
        stack.callback(self._progress.close)

    def advance(self, step: int) -> None:
        self._progress.advance(step)

    def write(self, record: Record) -> None:
        for sink in self._sinks:
            sink.write(record)
        self._progress.show({**record["parts"], **record.get("validation", {})})

    def sync(self) -> None:
        for sink in self._sinks:
            sink.sync()


def _sinks(run_dir: Path | None, step: int, *, tensorboard: bool) -> list[Sink]:
    if run_dir is None:
        return []
    sinks: list[Sink] = [Logbook(run_dir / LOG, after=step)]
    return [*sinks, Board(run_dir, after=step)] if tensorboard else sinks
