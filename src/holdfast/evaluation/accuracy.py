"""Natural accuracy and accuracy under PGD: one row per example, resumable."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks.pgd import PGD
from holdfast.data.dataset import Dataset, to_float
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.rng import make_keys
from holdfast.storage.table import ChecksummedTable
from holdfast.training.distributed import Processes
from holdfast.types import Model

_COLUMNS = ("id", "label", "prediction", "pgd_correct")
_Row = tuple[int, int, int, bool | None]


@dataclass
class Accuracy:
    """Labels and predictions by example id; `correct_under_attack` covers only the examples attacked with PGD."""

    label: dict[int, int] = field(default_factory=dict)
    prediction: dict[int, int] = field(default_factory=dict)
    correct_under_attack: dict[int, bool] = field(default_factory=dict)

    @property
    def natural(self) -> float | None:
        """Share of correct predictions, None without examples."""
        hits = [self.prediction[i] == label for i, label in self.label.items()]
        return sum(hits) / len(hits) if hits else None

    @property
    def under_attack(self) -> float | None:
        """Share of attacked examples still classified correctly under PGD, None if no example was attacked."""
        hits = list(self.correct_under_attack.values())
        return sum(hits) / len(hits) if hits else None


def measure_accuracy(
    found: Accuracy,
    model: Model,
    data: Dataset,
    attacked: Dataset,
    pgd: PGD | None,
    *,
    seed: int,
    batch_size: int,
    device: torch.device | str | None,
    path: Path | None,
    processes: Processes | None = None,
) -> Iterator[int]:
    """Fill `found` batch by batch and yield the number of examples it holds so far.

    The network predicts all examples of `data` and is attacked with PGD on `attacked`, a subset of `data`. Examples
    already in `found` are skipped. If `path` is given, every batch is appended to it; `read_accuracy` reads the file.
    Several processes share the batches; all of them fill `found` with all examples, and rank 0 writes the file.
    """
    who = processes or Processes()
    under_pgd = {int(i) for i in attacked.ids} if pgd is not None else set()
    done = {i for i in found.label if i not in under_pgd or i in found.correct_under_attack}
    yield len(found.label)

    def measured(part: slice | None) -> list[_Row]:
        if part is None:
            return []
        x, y, ids = batch_of(data, part, device)
        with evaluating(model):
            right, labels = _one_batch(model, x, y, ids, pgd, under_pgd, seed)
        return list(zip(ids.tolist(), y.tolist(), labels.tolist(), right, strict=True))

    for mine, _ in who.rounds(batches(data, batch_size, skip=done)):
        rows = [row for part in who.each(partial(measured, mine)) for row in part if row[0] not in done]
        if path is not None and who.leads:
            _table(path).append([_cells(*row) for row in rows])
        for row in rows:
            _note(found, *row)
        yield len(found.label)


def _one_batch(
    model: Model, x: Tensor, y: Tensor, ids: Tensor, pgd: PGD | None, under_pgd: set[int], seed: int
) -> tuple[list[bool | None], Tensor]:
    labels = predictions(model, x, images_per_pass(x), check=True).labels
    right: list[bool | None] = [None] * len(y)
    chosen = [row for row, i in enumerate(ids.tolist()) if i in under_pgd]
    if pgd is not None and chosen:
        rows = torch.tensor(chosen, device=x.device)
        attacked = pgd.run(model, x[rows], y[rows], keys=make_keys(seed, ids[rows]))
        broken = predictions(model, attacked.x_adv, images_per_pass(x)).labels != y[rows]
        for row, wrong in zip(chosen, broken.tolist(), strict=True):
            right[row] = not wrong
    return right, labels


def batches(data: Dataset, batch_size: int, skip: set[int]) -> list[slice]:
    """The batches in a fixed order without the finished ones, so that a resumed run uses the same batches."""
    parts = [slice(start, start + batch_size) for start in range(0, len(data), batch_size)]
    return [part for part in parts if not skip.issuperset(data.ids[part].tolist())]


def batch_of(data: Dataset, part: slice, device: torch.device | str | None) -> tuple[Tensor, Tensor, Tensor]:
    """Images, labels and ids of a batch, on the device."""
    return to_float(data.x[part], device), data.y[part].to(device), data.ids[part].to(device)


def _table(path: Path) -> ChecksummedTable:
    return ChecksummedTable(path=path, columns=_COLUMNS, required=_COLUMNS, legacy=(",".join(_COLUMNS),))


def _cells(example: int, label: int, prediction: int, right: bool | None) -> dict[str, str]:
    values = (str(example), str(label), str(prediction), "" if right is None else str(int(right)))
    return dict(zip(_COLUMNS, values, strict=True))


def _note(found: Accuracy, example: int, label: int, prediction: int, right: bool | None) -> None:
    found.label[example], found.prediction[example] = label, prediction
    if right is not None:
        found.correct_under_attack[example] = right


def rows_of(found: Accuracy) -> list[_Row]:
    """The entries of `found` as rows (id, label, prediction, correct under PGD)."""
    right = found.correct_under_attack
    return [(i, label, found.prediction[i], right.get(i)) for i, label in found.label.items()]


def accuracy_of(rows: Iterable[Sequence[Any]]) -> Accuracy:
    """The inverse of `rows_of`."""
    found = Accuracy()
    for row in rows:
        _note(found, *row)
    return found


def read_accuracy(path: Path | None) -> Accuracy:
    """Read the rows written by an earlier, possibly interrupted, call."""
    found = Accuracy()
    if path is None or not path.exists():
        return found
    table = _table(path)
    for record in table.read()[0]:
        try:
            example, label, prediction, right = (record.cells[name] for name in _COLUMNS)
            _note(found, int(example), int(label), int(prediction), bool(int(right)) if right else None)
        except ValueError as error:
            raise table.damaged(record.line, error) from error
    return found
