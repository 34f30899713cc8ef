"""The per-example table of a run: one row for each attack and example, appended as the evaluation goes."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.errors import DataError, expected
from holdfast.results.lines import append_lines, read_complete
from holdfast.seals import COLUMN, sealed_line, unsealed_line

Outcome = Literal["attacked", "misclassified", "label_lost", "unmoved", "nan_map"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

METRICS = ("top_k", "kendall", "spearman", "cosine", "center_shift")
"""What an attack moves, in the order of the tables: four similarities (1 = unmoved) and a distance (0 = unmoved)."""

_RANGES = {"top_k": (0.0, 1.0), "kendall": (-1.0, 1.0), "spearman": (-1.0, 1.0), "cosine": (-1.0, 1.0)}
_LARGEST_ID = 2**53
_ROUNDING = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleRow:
    """What one attack did to one example. None (or NaN, which becomes None) means not available.

    outcome: attacked; misclassified (wrong before the attack, so not attacked); label_lost (no step kept the label);
    unmoved (label kept, map never moved); nan_map (the map or its metric is undefined).
    """

    attack: str
    id: int
    label: int
    prediction: int
    pgd_correct: bool | None = None
    outcome: Outcome
    top_k: float | None = None
    kendall: float | None = None
    spearman: float | None = None
    cosine: float | None = None
    center_shift: float | None = None
    winner: str = ""
    completeness_gap: float | None = None

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise expected(f"outcome in {', '.join(OUTCOMES)}", got=repr(self.outcome))
        if not 0 <= self.id < _LARGEST_ID:
            raise expected("0 <= id < 2**53", got=self.id, fix="number the examples of the dataset from 0")
        for name in ("attack", "winner"):
            if not getattr(self, name).isprintable():
                raise expected(f"printable text on one line as {name}", got=repr(getattr(self, name)))
        for name in (*METRICS, "completeness_gap"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _checked(name, value))


def _checked(name: str, value: float) -> float | None:
    if math.isnan(value):
        return None
    low, high = _RANGES.get(name, (0.0, math.inf) if name == "center_shift" else (-math.inf, math.inf))
    if math.isinf(value) or not low - _ROUNDING <= value <= high + _ROUNDING:
        raise expected(f"finite {name} in [{low:g}, {high:g}]", got=value)
    return min(max(float(value), low), high)


COLUMNS = tuple(field.name for field in fields(ExampleRow))
_UNSEALED = ",".join(COLUMNS) + "\n"
_HEADER = f"{','.join(COLUMNS)},{COLUMN}\n"
"""What a table starts with: each line ends with a checksum, but not in tables from before there were seals."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows as read, and one sentence for each thing that reading dropped."""

    rows: tuple[ExampleRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examples:
    """The file `examples.csv`: append batches while evaluating, read them back, also after a crash."""

    path: Path

    def append(self, rows: Sequence[ExampleRow]) -> None:
        """Add rows; when this returns they are on disk."""
        if not rows:
            return
        header = self._header()
        lines = to_csv(rows).split("\n")[:-1]
        body = lines if header == _UNSEALED else [sealed_line(line) for line in lines]
        append_lines(self.path, ("" if header else _HEADER) + "".join(f"{line}\n" for line in body))

    def read(self) -> Rows:
        """All complete rows; a torn last line and exact repeats are dropped and named in the notes."""
        text, torn = read_complete(self.path)
        rows, repeats = self._parse(text)
        notes = []
        if torn:
            notes.append(f"{self.path.name}: the last line was cut off by an interruption and is left out")
        if repeats:
            notes.append(f"{self.path.name}: {repeats} repeated rows are left out")
        return Rows(rows=rows, notes=tuple(notes))

    def done(self) -> set[tuple[str, int]]:
        """The (attack, id) pairs that a resumed evaluation need not redo."""
        return {(row.attack, row.id) for row in self.read().rows} if self.path.exists() else set()

    def _header(self) -> str:
        """The first line, empty for a file that has none yet; refuses that of another table."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            first = file.readline(2 * len(_HEADER)).decode(errors="replace")
        if first.endswith("\n") and first not in (_HEADER, _UNSEALED):
            raise DataError(
                f"expected {self.path} to start with {_HEADER.strip()!r}, got another header; use a new folder."
            )
        return first if first.endswith("\n") else ""  # a torn one is cut by append_lines and written again

    def _parse(self, text: str) -> tuple[tuple[ExampleRow, ...], int]:
        header = next((known for known in (_HEADER, _UNSEALED) if text.startswith(known)), "")
        if text and not header:
            raise DataError(f"expected {self.path} to start with {_HEADER.strip()!r}; it is not an examples table.")
        found: dict[tuple[str, int], ExampleRow] = {}
        repeats = 0
        lines = text[len(header) :].split("\n")[:-1]
        bodies = lines if header == _UNSEALED else [self._opened(line, at) for at, line in enumerate(lines, start=2)]
        for number, line in enumerate(_records(self.path, bodies), start=2):
            row = self._row(line, number)
            if (earlier := found.setdefault((row.attack, row.id), row)) is not row:
                repeats += 1
                if earlier != row:
                    where = f"attack {row.attack!r}, example {row.id} in {self.path}"
                    raise DataError(f"expected one row for {where}, got two that differ; delete one of them.")
        return tuple(found.values()), repeats

    def _opened(self, line: str, number: int) -> str:
        try:
            return unsealed_line(line)
        except ValueError as error:
            raise self._broken(number, error) from error

    def _broken(self, number: int, error: ValueError) -> DataError:
        fix = "delete the line, and the evaluation will redo that example"
        return DataError(f"cannot read line {number} of {self.path}: {str(error).rstrip('.')}; {fix}.")

    def _row(self, cells: list[str], number: int) -> ExampleRow:
        try:
            if len(cells) != len(COLUMNS):
                raise ValueError(f"expected {len(COLUMNS)} cells, got {len(cells)}")
            return ExampleRow(**{name: _PARSE[name](cell) for name, cell in zip(COLUMNS, cells, strict=True)})
        except ValueError as error:
            raise self._broken(number, error) from error


def to_csv(rows: Iterable[ExampleRow]) -> str:
    """The rows as CSV lines without a header; floats are written so that reading gives the same bits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(getattr(row, name)) for name in COLUMNS] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool | int) else str(value)


def _records(path: Path, lines: Iterable[str]) -> Iterable[list[str]]:
    try:
        yield from csv.reader(lines, strict=True)
    except csv.Error as error:
        raise DataError(f"cannot read {path}: {error}; delete the broken line.") from error


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _flag(cell: str) -> bool | None:
    if cell not in ("", "0", "1"):
        raise ValueError(f"expected 0, 1 or nothing in pgd_correct, got {cell!r}")
    return cell == "1" if cell else None


_PARSE: dict[str, Callable[[str], Any]] = dict.fromkeys(COLUMNS, _number) | {
    "attack": str,
    "id": int,
    "label": int,
    "prediction": int,
    "pgd_correct": _flag,
    "outcome": str,
    "winner": str,
}
