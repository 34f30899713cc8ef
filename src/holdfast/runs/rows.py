"""The per-example table of a run: one row per attack and example, appended during the evaluation.

The score columns are the metrics of the registry (`holdfast.metrics.METRICS`). The columns of the control maps are in
`runs/controls.py`. Columns are found by name, so a table written before a metric was added can still be read and
continued.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.errors import DataError, expected
from holdfast.metrics.registry import METRICS
from holdfast.runs.controls import control_columns, control_range
from holdfast.storage.files import write_with
from holdfast.storage.table import ChecksummedTable, Record

Outcome = Literal["attacked", "misclassified", "label_lost", "unmoved", "nan_map"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_LARGEST_ID = 2**53
_ROUNDING = 1e-5
_UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleRow:
    """The result of one attack on one example. None (or NaN, which becomes None) means not available.

    outcome: attacked; misclassified (wrong before the attack, so not attacked); label_lost (no step kept the label);
    unmoved (the label was kept but the map never moved); nan_map (the map or its metric is undefined).
    `scores` holds one value per metric. `steps` counts the steps of the search, and `random_steps` the steps without a
    gradient. `notes` holds remarks of the attack about its own run. `controls` holds what was measured on control maps,
    by column, without those that are not available.
    """

    attack: str
    id: int
    label: int
    prediction: int
    pgd_correct: bool | None = None
    outcome: Outcome
    scores: Mapping[str, float | None] = field(default_factory=dict)
    winner: str = ""
    completeness_gap: float | None = None
    steps: int | None = None
    random_steps: int | None = None
    notes: str = ""
    controls: Mapping[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise expected(f"outcome in {', '.join(OUTCOMES)}", got=repr(self.outcome))
        if not 0 <= self.id < _LARGEST_ID:
            raise expected("0 <= id < 2**53", got=self.id, fix="number the examples of the dataset from 0")
        for name in ("attack", "winner", "notes"):
            if not getattr(self, name).isprintable():
                raise expected(f"printable text on one line as {name}", got=repr(getattr(self, name)))
        for name in ("steps", "random_steps"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < _LARGEST_ID:
                raise expected(f"0 <= {name} < 2**53", got=value)
        ranges = {name: METRICS[name].range if name in METRICS else _UNBOUNDED for name in self.scores}
        checked = {name: _checked(name, value, ranges[name]) for name, value in self.scores.items()}
        object.__setattr__(self, "scores", checked)
        controls = {name: _checked(name, value, control_range(name)) for name, value in self.controls.items()}
        object.__setattr__(self, "controls", {name: v for name, v in controls.items() if v is not None})
        gap = _checked("completeness_gap", self.completeness_gap, _UNBOUNDED)
        object.__setattr__(self, "completeness_gap", gap)

    def __hash__(self) -> int:
        return hash((self.attack, self.id, self.outcome, tuple(self.scores.items())))

    def score(self, metric: str) -> float | None:
        """The value of one metric, or None if it is not available."""
        return self.scores.get(metric)


def packed(rows: Iterable[ExampleRow]) -> list[dict[str, Any]]:
    """The rows as JSON types, to send them to another process."""
    names = [f.name for f in fields(ExampleRow)]
    return [{n: getattr(row, n) for n in names} | {"scores": dict(row.scores)} for row in rows]


def unpacked(rows: Iterable[Mapping[str, Any]]) -> list[ExampleRow]:
    """The inverse of `packed`."""
    return [ExampleRow(**row) for row in rows]


def _checked(name: str, value: float | None, allowed: tuple[float, float]) -> float | None:
    if value is None or math.isnan(value):
        return None
    low, high = allowed
    if math.isinf(value) or not low - _ROUNDING <= value <= high + _ROUNDING:
        raise expected(f"finite {name} in [{low:g}, {high:g}]", got=value)
    return min(max(float(value), low), high)


def metrics_of(rows: Sequence[ExampleRow]) -> tuple[str, ...]:
    """Names of the registered metrics for which these rows have a column, in the order of the registry."""
    present = {name for row in rows for name in row.scores}
    return tuple(name for name in METRICS if name in present)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows as read, and one note for each kind of line that was dropped."""

    rows: tuple[ExampleRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examples:
    """The file `examples.csv`: append batches during the evaluation and read them back, also after a crash."""

    path: Path

    def append(self, rows: Sequence[ExampleRow]) -> None:
        """Append rows and flush them to disk."""
        self._table.append([_cells(row) for row in rows])

    def drop(self, attacks: Collection[str]) -> None:
        """Delete the rows of these attacks; the file is replaced as a whole, with the columns of this version."""
        kept = [row for row in self.read().rows if row.attack not in attacks]
        if kept:
            write_with(self.path, lambda part: Examples(part).append(kept))
        else:
            self.path.unlink()

    def read(self) -> Rows:
        """Read all complete rows; an incomplete last line and exact duplicates are dropped and listed in the notes."""
        records, torn = self._table.read()
        found: dict[tuple[str, int], ExampleRow] = {}
        repeats = 0
        for record in records:
            row = self._row(record)
            if (earlier := found.setdefault((row.attack, row.id), row)) is not row:
                repeats += 1
                if earlier != row:
                    where = f"attack {row.attack!r}, example {row.id} in {self.path}"
                    raise DataError(f"expected one row for {where}, got two that differ; delete one of them.")
        notes = []
        if torn:
            notes.append(f"{self.path.name}: the last line was cut off by an interruption and is left out")
        if repeats:
            notes.append(f"{self.path.name}: {repeats} repeated rows are left out")
        return Rows(rows=tuple(found.values()), notes=tuple(notes))

    @property
    def _table(self) -> ChecksummedTable:
        columns = (*BEFORE_SCORES, *METRICS, *AFTER_SCORES, *control_columns())
        return ChecksummedTable(path=self.path, columns=columns, required=_REQUIRED, legacy=(_LEGACY,))

    def _row(self, record: Record) -> ExampleRow:
        try:
            known = {name: parse(record.cells[name]) for name, parse in _PARSE.items() if name in record.cells}
            scores = {name: _number(record.cells[name]) for name in METRICS if name in record.cells}
            controls = {name: _number(record.cells[name]) for name in control_columns() if name in record.cells}
            return ExampleRow(scores=scores, controls=controls, **known)
        except ValueError as error:
            raise self._table.damaged(record.line, error) from error


def _cells(row: ExampleRow) -> dict[str, str]:
    """The row as text; floats are written so that reading restores the same bits."""
    named = {name: getattr(row, name) for name in _PARSE} | {**row.scores, **row.controls}
    return {name: _cell(value) for name, value in named.items()}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool | int) else str(value)


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _whole(cell: str) -> int | None:
    return int(cell) if cell else None


def _flag(cell: str) -> bool | None:
    if cell not in ("", "0", "1"):
        raise ValueError(f"expected 0, 1 or nothing in pgd_correct, got {cell!r}")
    return cell == "1" if cell else None


_PARSE: dict[str, Callable[[str], Any]] = {
    "attack": str,
    "id": int,
    "label": int,
    "prediction": int,
    "pgd_correct": _flag,
    "outcome": str,
    "winner": str,
    "completeness_gap": _number,
    "steps": _whole,
    "random_steps": _whole,
    "notes": str,
}
_LEGACY = (
    "attack,id,label,prediction,pgd_correct,outcome,top_k,kendall,spearman,cosine,center_shift,winner,completeness_gap"
)
"""The header of tables written before the metric registry existed."""

_REQUIRED = ("attack", "id", "label", "prediction", "outcome")
BEFORE_SCORES = ("attack", "id", "label", "prediction", "pgd_correct", "outcome")
AFTER_SCORES = ("winner", "completeness_gap", "steps", "random_steps", "notes")
