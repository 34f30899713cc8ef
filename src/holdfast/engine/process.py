"""What a command sets for its own process before it computes: threads and the memory allocator.

Only the command line does this. A program that imports holdfast keeps its own settings.
"""

import ctypes
import os
import sys
from pathlib import Path

from holdfast.errors import expected

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_KEPT, _LARGEST = 2**31 - 1, 32 * 2**20


def usable_cores() -> int:
    """Cores this process may use: its affinity, or the quota of its container if that is less."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or the quota is "max"
        return allowed


def set_threads(asked: int | None = None) -> None:
    """Let PyTorch use `asked` threads, else those of OMP_NUM_THREADS, else one a usable core; before it is imported."""
    if asked is not None and asked < 1:
        raise expected("--threads >= 1", got=asked)
    if asked is not None or not os.environ.get("OMP_NUM_THREADS"):
        os.environ["OMP_NUM_THREADS"] = str(asked or usable_cores())
        os.environ.pop("MKL_NUM_THREADS", None)


def keep_memory() -> None:
    """Keep freed memory instead of giving it back: each step needs the same again, and fresh pages cost 5 to 12 %."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST)
    mallopt(_TRIM_THRESHOLD, _KEPT)
