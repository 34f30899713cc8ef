"""Provenance of a result: versions, commit, hardware, seeds, command. Does not load PyTorch or store absolute paths."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_ABSOLUTE = re.compile(r"(^|=)(/|[A-Za-z]:[\\/]|~).*?([^/\\]*)[/\\]?$")


def collect_provenance(
    *, seeds: Sequence[int] = (), command: Sequence[str] | None = None, device: str = "cpu", threads: int | None = None
) -> dict[str, Any]:
    """Collect the provenance stored in a run directory; `finish` adds the end time.

    `command` defaults to the command line of this process; an absolute path in it is cut to its last part.
    """
    commit, dirty = _commit()
    words = [Path(sys.argv[0]).name, *sys.argv[1:]] if command is None else command
    return {
        "holdfast": package_version("holdfast"),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "torch": package_version("torch"),
        "numpy": package_version("numpy"),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads,
        "device": device,
        "started": now(),
        "finished": None,
        "command": " ".join(without_folders(word) for word in words),
        "seeds": list(seeds),
    }


def finish(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Add the end time of the run."""
    return {**provenance, "finished": now()}


def now() -> str:
    """The current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def without_folders(word: str) -> str:
    """Cut an absolute path in a word of a command line to its last part.

    >>> without_folders("--out=/home/me/runs/a"), without_folders("mnist/erar")
    ('--out=a', 'mnist/erar')
    """
    return _ABSOLUTE.sub(r"\1\3", word)


def package_version(package: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> tuple[str | None, bool | None]:
    """Commit of the holdfast source and whether it has uncommitted changes; None if it is not a git checkout."""
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None  # installed inside another repository, or git is not available
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return _git("rev-parse", "HEAD"), bool(changes) if changes is not None else None


def _git(*words: str) -> str | None:
    folder = Path(__file__).parents[1]
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu() -> str:
    """The name of the processor, as reported by the system."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()
