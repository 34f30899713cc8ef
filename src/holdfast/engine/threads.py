"""Thread pools that live as long as the process; new threads would allocate fresh memory on every call."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any


@cache
def shared_pool(name: str, workers: int, begin: Callable[..., object] | None = None, *given: Any) -> ThreadPoolExecutor:
    """A pool of `workers` threads whose names start with `name`; each thread first calls `begin(*given)`, if set."""
    return ThreadPoolExecutor(workers, name, begin, given)


if hasattr(os, "register_at_fork"):  # a forked child inherits the pools without their threads
    os.register_at_fork(after_in_child=shared_pool.cache_clear)
