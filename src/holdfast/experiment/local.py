"""Run jobs on this machine, one after the other or in several processes."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from holdfast.experiment.jobs import Job, run_job, unfinished

PATIENCE = 60.0
"""Seconds an interrupted run has to save a checkpoint before its process is killed."""


def run_local(jobs: Sequence[Job], *, workers: int, watch: Callable[[], None] = lambda: None) -> list[Path]:
    """Run all jobs in `workers` processes on this machine and call `watch` about twice per second.

    The first error stops all jobs. With several workers each process uses one thread: for small networks, two parallel
    runs are faster than one run with two threads.
    """
    todo = unfinished(jobs)
    if workers <= 1:
        for job in todo:
            with _watched(watch):
                run_job(job)
        return [job.folder for job in jobs]
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_quiet_worker)
    try:
        _wait({pool.submit(run_job, job, 1) for job in todo}, watch)
    except BaseException:
        _stop(pool)
        raise
    pool.shutdown()
    return [job.folder for job in jobs]


def _stop(pool: ProcessPoolExecutor) -> None:
    """Stop the workers. Training saves a checkpoint on SIGTERM; the rows of an evaluation are already on disk.

    The first SIGTERM only makes a training loop save and end its job; the worker process then waits for its next job.
    The signal is therefore repeated until the process has ended.
    """
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    deadline = time.monotonic() + PATIENCE
    while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
        for worker in workers:
            worker.terminate()
        time.sleep(0.3)
    for worker in workers:
        worker.kill()
        worker.join()


def _wait(running: set[Future[Path]], watch: Callable[[], None]) -> None:
    while running:
        done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        watch()
        for future in done:
            future.result()


def _quiet_worker() -> None:
    """Ignore Ctrl-C in a worker; its parent process handles it and stops the worker with SIGTERM."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _watched(watch: Callable[[], None]) -> Iterator[None]:
    """Call `watch` from a background thread while the block runs."""
    import threading

    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            watch()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        watch()
