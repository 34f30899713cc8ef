"""Writes the records of a run for TensorBoard, which must be installed."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import InputError
from holdfast.training.logbook import Record


class Board:
    """Writes every number of a record as a scalar under `run_dir/tensorboard`."""

    def __init__(self, run_dir: Path, *, after: int = 0) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings from TensorBoard's own imports, which users cannot fix
                from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "expected TensorBoard to be installed, got no such package; run pip install 'holdfast[tensorboard]'."
            ) from None
        self._writer = SummaryWriter(str(run_dir / "tensorboard"), purge_step=after + 1)

    def write(self, record: Record) -> None:
        for name, value in _scalars(record):
            self._writer.add_scalar(name, value, record["step"])

    def sync(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _scalars(record: Record) -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", number) for key, number in value.items() if number is not None)
        elif name != "step":
            yield name, value
