"""How long each part of a hardening took, with the parts of earlier sessions that it resumes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.storage.json_files import read_json, write_json_atomic

PHASES = ("audit before", "training", "audit after")
ALL = "all"
"""Everything since the start: the phases, the timed steps of the plan, and the files."""


@dataclass
class Seconds:
    """Seconds of the phases, kept in the file of the plan so that an interrupted phase counts, too."""

    began: float
    file: Path | None = None
    earlier: dict[str, float] = field(init=False)
    now: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        known = read_json(self.file) if self.file is not None and self.file.exists() else {}
        self.earlier = dict(known.get("seconds", {}))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block, even if it is interrupted."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.now[name] = time.monotonic() - began
            if self.file is not None and self.file.exists():
                write_json_atomic(self.file, read_json(self.file) | {"seconds": self.total()})

    def total(self) -> dict[str, float]:
        """Phase -> seconds until now, and `ALL`."""
        now = self.now | {ALL: time.monotonic() - self.began}
        return {name: round(self.earlier.get(name, 0.0) + now.get(name, 0.0), 1) for name in (*PHASES, ALL)}
