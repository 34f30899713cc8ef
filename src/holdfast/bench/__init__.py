"""Speed against the peers: interleaved in one process on the same work, results checked to be equal."""

from holdfast.bench.cases import cases
from holdfast.bench.timing import Case, Timing, time_case

__all__ = ["Case", "Timing", "cases", "time_case"]
