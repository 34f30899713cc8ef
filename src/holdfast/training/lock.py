"""One process at a time in a run directory."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError, InputError
from holdfast.files import sweep

if sys.platform != "win32":
    import fcntl


class RunDirectoryBusyError(HoldfastError):
    """Another process is at work in the run directory."""


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Hold `run_dir/lock` for the length of a block; the directory is made if need be.

    The operating system drops the lock with the process that holds it, so `kill -9` leaves nothing to clean up. The
    file stays; it names the process that held it last. Windows has no such lock and relies on its user.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _unusable(run_dir, error) from error
    try:
        _claim(handle, run_dir)
        yield
    finally:
        os.close(handle)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, with what a killed process left unfinished there cleared away."""
    with locked(folder):
        sweep(folder)
        yield


def _claim(handle: int, run_dir: Path) -> None:
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(handle, 200).decode(errors="replace").strip() or "unknown"
        fix = "wait for it to finish, stop it, or use another run directory"
        raise RunDirectoryBusyError(f"{run_dir} is in use by process {owner}; {fix}.") from None
    except OSError as error:  # a file system without locks
        raise _unusable(run_dir, error) from error
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _unusable(run_dir: Path, error: OSError) -> InputError:
    return InputError(f"expected a run directory to write to and lock, got {run_dir}: {error.strerror or error}.")
