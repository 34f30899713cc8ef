"""Append-only CSV tables: the header and each line end with a checksum, and columns are found by name.

The header of the file determines which columns are written. A table started by an older version can therefore be
continued, and a table with columns unknown to this version can be read. Older headers have no checksum of their own;
they are listed verbatim in `legacy`, so that a damaged header is never mistaken for another table.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import DataError
from holdfast.storage.checksums import COLUMN, line_with_checksum, line_without_checksum
from holdfast.storage.lines import append_lines, read_complete, repair

MAX_HEADER_BYTES = 1 << 14


@dataclass(frozen=True)
class Record:
    """One line of a table: its number in the file and its cells by column name."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True)
class _Header:
    columns: tuple[str, ...]
    has_checksums: bool


@dataclass(frozen=True, kw_only=True)
class ChecksummedTable:
    """The CSV file at `path`. A new file gets `columns`; a file without all `required` columns is rejected."""

    path: Path
    columns: tuple[str, ...]
    required: tuple[str, ...]
    legacy: tuple[str, ...] = ()
    """Headers of older versions, verbatim, without their checksum column."""
    fix: str = "delete the line, and the evaluation will redo that example"

    def append(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Append rows and flush them to disk. An incomplete last line is removed first."""
        if not rows:
            return
        repair(self.path)  # an incomplete header is removed, too; the empty file then needs a new one
        known = self._header()
        header = known or _Header(self.columns, has_checksums=True)
        body = _to_csv([[row.get(name, "") for name in header.columns] for row in rows])
        lines = [line_with_checksum(line) if header.has_checksums else line for line in body]
        first = [] if known else [line_with_checksum(",".join(self.columns), mark=f"{COLUMN}:")]
        append_lines(self.path, "".join(f"{line}\n" for line in (*first, *lines)))

    def read(self) -> tuple[list[Record], bool]:
        """Return all complete lines, and whether an incomplete last line was dropped."""
        text, torn = read_complete(self.path)
        head, *lines = text.split("\n")[:-1] or [""]
        if not text:
            return [], torn
        header = self._parsed(head)
        opened = [self._opened(line, at) if header.has_checksums else line for at, line in enumerate(lines, start=2)]
        return [self._record(header, cells, at) for at, cells in enumerate(self._split(opened), start=2)], torn

    def damaged(self, line: int, error: Exception) -> DataError:
        """Build the error for a line that cannot be used."""
        return DataError(f"cannot read line {line} of {self.path}: {str(error).rstrip('.')}; {self.fix}.")

    def _header(self) -> _Header | None:
        """The header of the file, or None if the file has no complete line yet."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            first = file.readline(MAX_HEADER_BYTES).decode(errors="replace")
        return self._parsed(first.rstrip("\n")) if first.endswith("\n") else None

    def _parsed(self, head: str) -> _Header:
        if head in self.legacy:
            return _Header(tuple(head.split(",")), has_checksums=False)
        if head.removesuffix(f",{COLUMN}") in self.legacy:
            return _Header(tuple(head.split(",")[:-1]), has_checksums=True)
        try:
            columns = tuple(line_without_checksum(head, mark=f"{COLUMN}:").split(","))
        except ValueError:
            columns = ()
        if not set(self.required) <= set(columns) or len(set(columns)) < len(columns):
            wanted = ",".join(self.columns)
            raise DataError(f"expected {self.path} to start with {wanted!r}, got another header; use a new folder.")
        return _Header(columns, has_checksums=True)

    def _opened(self, line: str, number: int) -> str:
        try:
            return line_without_checksum(line)
        except ValueError as error:
            raise self.damaged(number, error) from error

    def _record(self, header: _Header, cells: Sequence[str], number: int) -> Record:
        if len(cells) != len(header.columns):
            raise self.damaged(number, ValueError(f"expected {len(header.columns)} cells, got {len(cells)}"))
        return Record(number, dict(zip(header.columns, cells, strict=True)))

    def _split(self, lines: Iterable[str]) -> Iterator[list[str]]:
        try:
            yield from csv.reader(lines, strict=True)
        except csv.Error as error:
            raise DataError(f"cannot read {self.path}: {error}; delete the broken line.") from error


def _to_csv(rows: Iterable[Sequence[str]]) -> list[str]:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().split("\n")[:-1]
