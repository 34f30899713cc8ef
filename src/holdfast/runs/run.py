"""A run directory as an object. Each file is read on first access and may be missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.errors import DataError
from holdfast.runs.panels import Panels, read_panels
from holdfast.runs.rows import ExampleRow, Examples, Rows
from holdfast.runs.training_log import Log, read_log
from holdfast.storage.json_files import read_json, read_text

FILES = ("config.toml", "provenance.json", "log.jsonl", "examples.csv", "panels.npz", "summary.json")


@dataclass(frozen=True)
class Run:
    """One model evaluated on one dataset. Missing files are None or empty; damaged ones raise a DataError on access."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder, without its parents."""
        return self.folder.name or self.folder.resolve().name

    @cached_property
    def config(self) -> str:
        """The resolved config as text."""
        return read_text(path) if (path := self.folder / "config.toml").exists() else ""

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Versions, commit, hardware and seeds, from `provenance.json` or else from the summary."""
        if (path := self.folder / "provenance.json").exists():
            return read_json(path)
        inside = (self.summary or {}).get("provenance")
        return inside if isinstance(inside, dict) else {}

    @cached_property
    def log(self) -> Log:
        """The training log."""
        return read_log(self.folder / "log.jsonl")

    @cached_property
    def examples(self) -> Rows:
        """The per-example rows."""
        return Examples(path).read() if (path := self.folder / "examples.csv").exists() else Rows(rows=())

    @cached_property
    def panels(self) -> Panels | None:
        """The stored panels, or None."""
        return read_panels(path) if (path := self.folder / "panels.npz").exists() else None

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """The summary, or None while the evaluation is not finished."""
        return read_json(path) if (path := self.folder / "summary.json").exists() else None

    @cached_property
    def measured(self) -> dict[str, Any]:
        """What was measured, from `measured.json`: checksums of network and images, settings of every attack."""
        return read_json(path) if (path := self.folder / "measured.json").exists() else {}

    @cached_property
    def checks(self) -> dict[str, Any]:
        """Results of benchmarks/checks.py, which checks the measurement itself, by the name of the check."""
        return read_json(path) if (path := self.folder / "checks.json").exists() else {}

    @cached_property
    def certificates(self) -> dict[str, Any] | None:
        """What `holdfast audit --certify` has written, or None."""
        return read_json(path) if (path := self.folder / "certificates.json").exists() else None

    def rows_of(self, attack: str) -> tuple[ExampleRow, ...]:
        """The rows of one attack."""
        return tuple(row for row in self.examples.rows if row.attack == attack)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about lines that were dropped while reading."""
        return (*self.examples.notes, *self.log.notes)


def is_run(folder: Path) -> bool:
    """Whether a folder holds at least one file of a run."""
    return any((folder / name).is_file() for name in FILES)


def read_run(folder: Path | str) -> Run:
    """The run in `folder`; its files are read on access."""
    path = Path(folder)
    if not is_run(path):
        files = ", ".join(FILES)
        raise DataError(
            f"expected a run directory (with any of {files}) at {path}, got none; `holdfast train` creates one."
        )
    return Run(path)


def find_runs(paths: Sequence[Path]) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """All runs among `paths` and directly inside them, and the names of the paths without a run."""
    found: dict[Path, Run] = {}
    others = []
    for path in paths:
        if not path.exists():
            raise DataError(f"expected run directories, got {path}, which does not exist; check the path.")
        inside = [path] if is_run(path) else sorted(child for child in _children(path) if is_run(child))
        found |= {folder.resolve(): Run(folder) for folder in inside}
        if not inside:
            others.append(path.name)
    if not found:
        asked = ", ".join(str(path) for path in paths) or "nothing"
        raise DataError(
            f"expected run directories, got {asked}; pass the folders that `holdfast evaluate` has written."
        )
    return tuple(found.values()), tuple(others)


def _children(path: Path) -> list[Path]:
    try:
        return [child for child in path.iterdir() if child.is_dir()]
    except OSError:
        return []
