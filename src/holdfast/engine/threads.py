"""Threads that stay for the life of the process: new ones would fetch fresh memory from the system at every call."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any


@cache
def shared_pool(name: str, workers: int, begin: Callable[..., object] | None = None, *given: Any) -> ThreadPoolExecutor:
    """`workers` waiting threads whose names start with `name`, each of which calls `begin(*given)` first."""
    return ThreadPoolExecutor(workers, name, begin, given)


if hasattr(os, "register_at_fork"):  # a child has the pools without their threads
    os.register_at_fork(after_in_child=shared_pool.cache_clear)
