"""Natural accuracy and accuracy under PGD, one row an example, resumable."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from holdfast.attacks.batch import predictions
from holdfast.attacks.pgd import PGD
from holdfast.attribution.engine import images_per_pass
from holdfast.data.dataset import Dataset, to_float
from holdfast.models.modes import evaluating
from holdfast.results.lines import append_lines, read_complete, repair
from holdfast.rng import make_keys
from holdfast.types import Model

_HEADER = "id,label,prediction,pgd_correct\n"


@dataclass
class Accuracy:
    """Predictions by example id; `correct_under_attack` only for the examples that PGD was run on."""

    label: dict[int, int] = field(default_factory=dict)
    prediction: dict[int, int] = field(default_factory=dict)
    correct_under_attack: dict[int, bool] = field(default_factory=dict)

    @property
    def natural(self) -> float | None:
        """Share of right predictions."""
        hits = [self.prediction[i] == label for i, label in self.label.items()]
        return sum(hits) / len(hits) if hits else None

    @property
    def under_attack(self) -> float | None:
        """Share of predictions that PGD could not break."""
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
    """Fill `found` batch by batch, yielding how many examples it holds so far.

    All of `data` is predicted; `attacked`, a part of it, goes through PGD as well. Examples that `found` knows are
    skipped; with a `path` every batch is written there, for `read_accuracy` to find.
    """
    under_pgd = {int(i) for i in attacked.ids} if pgd is not None else set()
    done = {i for i in found.label if i not in under_pgd or i in found.correct_under_attack}
    yield len(found.label)
    for x, y, ids in _batches(data, batch_size, device, skip=done):
        with evaluating(model):
            right, labels = _one_batch(model, x, y, ids, pgd, under_pgd, seed)
        rows = list(zip(ids.tolist(), y.tolist(), labels.tolist(), right, strict=True))
        if path is not None:
            _append(path, "".join(_line(*row) for row in rows))
        for row in rows:
            _note(found, *row)
        yield len(found.label)


def _one_batch(
    model: Model, x: Tensor, y: Tensor, ids: Tensor, pgd: PGD | None, under_pgd: set[int], seed: int
) -> tuple[list[bool | None], Tensor]:
    labels = predictions(model, x, images_per_pass(x)).labels
    right: list[bool | None] = [None] * len(y)
    chosen = [row for row, i in enumerate(ids.tolist()) if i in under_pgd]
    if pgd is not None and chosen:
        rows = torch.tensor(chosen, device=x.device)
        attacked = pgd.run(model, x[rows], y[rows], keys=make_keys(seed, ids[rows]))
        broken = predictions(model, attacked.x_adv, images_per_pass(x)).labels != y[rows]
        for row, wrong in zip(chosen, broken.tolist(), strict=True):
            right[row] = not wrong
    return right, labels


def _batches(
    data: Dataset, batch_size: int, device: torch.device | str | None, skip: set[int]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    rows = [row for row, i in enumerate(data.ids.tolist()) if i not in skip]
    for start in range(0, len(rows), batch_size):
        part = torch.tensor(rows[start : start + batch_size])
        yield to_float(data.x[part], device), data.y[part].to(device), data.ids[part].to(device)


def _append(path: Path, lines: str) -> None:
    repair(path)  # a torn header leaves an empty file, which needs its header again
    fresh = not path.exists() or path.stat().st_size == 0
    append_lines(path, (_HEADER if fresh else "") + lines)


def _line(example: int, label: int, prediction: int, right: bool | None) -> str:
    return f"{example},{label},{prediction},{'' if right is None else int(right)}\n"


def _note(found: Accuracy, example: int, label: int, prediction: int, right: bool | None) -> None:
    found.label[example], found.prediction[example] = label, prediction
    if right is not None:
        found.correct_under_attack[example] = right


def read_accuracy(path: Path | None) -> Accuracy:
    """What an earlier, perhaps interrupted, call has written."""
    found = Accuracy()
    if path is None or not path.exists():
        return found
    text, _ = read_complete(path)
    for line in text.splitlines()[1:]:
        example, label, prediction, right = line.split(",")
        _note(found, int(example), int(label), int(prediction), bool(int(right)) if right else None)
    return found
