"""Natural accuracy and accuracy under PGD: one row per example, resumable."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from holdfast.attacks.pgd import PGD
from holdfast.data.dataset import Dataset, to_float
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.rng import make_keys
from holdfast.storage.table import ChecksummedTable
from holdfast.types import Model

_COLUMNS = ("id", "label", "prediction", "pgd_correct")


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
) -> Iterator[int]:
    """Fill `found` batch by batch and yield the number of examples it holds so far.

    The network predicts all examples of `data` and is attacked with PGD on `attacked`, a subset of `data`. Examples
    already in `found` are skipped. If `path` is given, every batch is appended to it; `read_accuracy` reads the file.
    """
    under_pgd = {int(i) for i in attacked.ids} if pgd is not None else set()
    done = {i for i in found.label if i not in under_pgd or i in found.correct_under_attack}
    yield len(found.label)
    for x, y, ids in batches(data, batch_size, device, skip=done):
        with evaluating(model):
            right, labels = _one_batch(model, x, y, ids, pgd, under_pgd, seed)
        every = zip(ids.tolist(), y.tolist(), labels.tolist(), right, strict=True)
        rows = [row for row in every if row[0] not in done]
        if path is not None:
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


def batches(
    data: Dataset, batch_size: int, device: torch.device | str | None, skip: set[int]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the batches in a fixed order and skip finished ones, so that a resumed run uses the same batches."""
    for start in range(0, len(data), batch_size):
        part = slice(start, start + batch_size)
        if skip.issuperset(data.ids[part].tolist()):
            continue
        yield to_float(data.x[part], device), data.y[part].to(device), data.ids[part].to(device)


def _table(path: Path) -> ChecksummedTable:
    return ChecksummedTable(path=path, columns=_COLUMNS, required=_COLUMNS, legacy=(",".join(_COLUMNS),))


def _cells(example: int, label: int, prediction: int, right: bool | None) -> dict[str, str]:
    values = (str(example), str(label), str(prediction), "" if right is None else str(int(right)))
    return dict(zip(_COLUMNS, values, strict=True))


def _note(found: Accuracy, example: int, label: int, prediction: int, right: bool | None) -> None:
    found.label[example], found.prediction[example] = label, prediction
    if right is not None:
        found.correct_under_attack[example] = right


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
