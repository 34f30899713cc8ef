"""Benchmarks against other libraries and against the machine: same work, same process, results checked to be equal."""

from holdfast.bench.cases import cases
from holdfast.bench.machine import Share, Slope, peak_memory, shares, slopes
from holdfast.bench.memory import Memory, memory
from holdfast.bench.timing import Case, Timing, UnequalError, time_case

__all__ = [
    "Case",
    "Memory",
    "Share",
    "Slope",
    "Timing",
    "UnequalError",
    "cases",
    "memory",
    "peak_memory",
    "shares",
    "slopes",
    "time_case",
]
