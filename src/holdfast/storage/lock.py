"""A lock that allows only one process at a time in a run directory."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from holdfast.errors import HoldfastError, InputError
from holdfast.storage.files import sweep

LOCK, OWNER = "lock", "lock.owner"


class RunDirectoryBusyError(HoldfastError):
    """Another process is using the run directory."""


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Hold `run_dir/lock` inside the block; the directory is created if it does not exist.

    The operating system releases the lock when its process ends, so nothing has to be cleaned up after `kill -9`. The
    lock file stays; `lock.owner` beside it names the last process that held the lock.
    """
    lock = FileLock(run_dir / LOCK, timeout=0, thread_local=False)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        fix = "wait for it to finish, stop it, or use another run directory"
        raise RunDirectoryBusyError(f"{run_dir} is in use by process {_owner(run_dir)}; {fix}.") from None
    except (OSError, NotImplementedError) as error:  # cannot be created, not writable, or a file system without locks
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"expected a run directory to write to and lock, got {run_dir}: {reason}.") from error
    try:
        (run_dir / OWNER).write_text(f"{os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        lock.release()


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder and delete temporary files left there by a killed process."""
    with locked(folder):
        sweep(folder)
        yield


def _owner(run_dir: Path) -> str:
    try:
        return (run_dir / OWNER).read_text(encoding="utf-8", errors="replace")[:200].strip() or "unknown"
    except OSError:
        return "unknown"
