"""Accuracy under several Auto-PGD attacks, each on the images that the ones before have not fooled; resumable.

The rows have a table of their own, `apgd.csv`, so that APGD can be measured later for a run whose other results exist.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from holdfast.attacks.apgd import APGD
from holdfast.data.dataset import Dataset
from holdfast.evaluation.accuracy import batch_of, batches
from holdfast.rng import make_keys
from holdfast.storage.table import ChecksummedTable
from holdfast.training.distributed import Processes
from holdfast.types import Model

FILE = "apgd.csv"
_COLUMNS = ("id", "correct")


def measure_apgd(
    found: dict[int, bool],
    model: Model,
    data: Dataset,
    attacks: Sequence[APGD],
    *,
    seed: int,
    batch_size: int,
    device: torch.device | str | None,
    path: Path | None,
    processes: Processes | None = None,
) -> Iterator[int]:
    """Fill `found` (example id -> no attack fooled the network) batch by batch and yield its size so far.

    Examples already in `found` are skipped. If `path` is given, every batch is appended to it. Several processes share
    the batches; all of them fill `found` with all examples, and rank 0 writes the file.
    """
    done, who = set(found), processes or Processes()
    yield len(found)

    def measured(part: slice | None) -> list[tuple[int, bool]]:
        if part is None:
            return []
        x, y, ids = batch_of(data, part, device)
        right = _withstands(model, x, y, make_keys(seed, ids), attacks)
        return list(zip(ids.tolist(), right.tolist(), strict=True))

    for mine, _ in who.rounds(batches(data, batch_size, skip=done)):
        rows = [(i, hit) for part in who.each(partial(measured, mine)) for i, hit in part if i not in done]
        if path is not None and who.leads:
            _table(path).append([{"id": str(i), "correct": str(int(hit))} for i, hit in rows])
        found.update(rows)
        yield len(found)


def read_apgd(path: Path | None) -> dict[int, bool]:
    """Read the rows written by an earlier, possibly interrupted, call."""
    found: dict[int, bool] = {}
    if path is None or not path.exists():
        return found
    table = _table(path)
    for record in table.read()[0]:
        try:
            found[int(record.cells["id"])] = bool(int(record.cells["correct"]))
        except ValueError as error:
            raise table.damaged(record.line, error) from error
    return found


def _withstands(model: Model, x: Tensor, y: Tensor, keys: Tensor, attacks: Sequence[APGD]) -> Tensor:
    """Which examples are classified right and stay so under every attack, bool [B]."""
    right = torch.ones_like(y, dtype=torch.bool)
    for attack in attacks:
        right &= ~attack.run(model, x, y, keys=keys, active=right).fooled
    return right


def _table(path: Path) -> ChecksummedTable:
    return ChecksummedTable(path=path, columns=_COLUMNS, required=_COLUMNS)
