"""Benchmarks against other libraries and against the machine: same work, same process, results checked to be equal."""

from holdfast.bench.cases import cases
from holdfast.bench.machine import Share, ShareCase, Slope, peak_memory, share_cases, slopes, time_share
from holdfast.bench.memory import Memory, memory
from holdfast.bench.timing import Case, Row, Timing, UnequalError, time_case

__all__ = [
    "Case",
    "Memory",
    "Row",
    "Share",
    "ShareCase",
    "Slope",
    "Timing",
    "UnequalError",
    "cases",
    "memory",
    "peak_memory",
    "share_cases",
    "slopes",
    "time_case",
    "time_share",
]
