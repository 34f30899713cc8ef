"""The command `holdfast bench`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from holdfast.bench import Case, Share, Slope, Timing


def bench(
    quick: bool = False,
    rounds: int = 7,
    only: str = "",
    minutes: float = 20.0,
    out: Path = Path("benchmarks/results.jsonl"),
) -> None:
    """Benchmark holdfast against other libraries (peers).

    Both sides do the same work in one process, in alternating rounds, and their results are checked to be equal. The
    command prints the ratio of the peer's time to ours with the range of its middle 90 %, the share of the machine's
    matrix-product rate that the innermost loops reach, the growth of the cost with the size, and the peak memory.
    Comparisons are noisy if a confidence interval of the median ratio is wider than a tenth of it; these are
    repeated. The command appends the results, with versions and hardware, to a JSON lines file; of two lines of the
    same comparison in one run, the later one has more rounds. Install the peers with pip install 'holdfast[dev]'.

    Usage examples:
        holdfast bench                 # all benchmarks, twelve to fifteen minutes
        holdfast bench --only Kendall  # only comparisons whose name contains "Kendall"
        holdfast bench --quick         # seconds; checks that everything runs, the timings are meaningless

    Args:
        quick: Use tiny inputs and two rounds; write nothing.
        rounds: Number of rounds per comparison; long comparisons use at most three.
        only: Run only the comparisons whose name contains this text.
        minutes: Repeat noisy comparisons for at most this many minutes.
        out: JSON lines file to append the results to.
    """
    from rich.console import Console
    from rich.progress import track

    from holdfast.bench import UnequalError, cases, memory, peak_memory, shares, slopes, time_case

    console, count = Console(), 2 if quick else rounds

    def keep(*found: Any) -> None:  # write each result immediately, so that an interrupted run keeps its results
        if not quick:
            _append(out, list(found), peak_memory())

    chosen = [case for case in cases(quick=quick) if only.lower() in case.name.lower()]
    found_so_far, unequal = [], []
    for case in track(chosen, "comparing", console=console, transient=True):
        try:
            found_so_far.append((case, time_case(case, rounds=count)))
            keep(found_so_far[-1][1])
        except UnequalError as error:  # run the other comparisons first; the command fails at the end
            unequal.append(str(error))
    timings = [t for _, t in found_so_far] if quick else _repeated(found_so_far, count, minutes, keep)
    console.print(_timings(timings, quick))
    rest: list[Any] = []
    if not only:
        found, grown = list(shares(quick=quick, rounds=count)), list(slopes(quick=quick))
        large = memory(quick=quick)
        console.print(_shares(found, quick), _slopes(grown))
        console.print(f"peak memory, {large.name}: {large.peak / 2**20:,.0f} MiB", highlight=False)
        console.print(f"peak memory of this process: {peak_memory() / 2**20:,.0f} MiB", highlight=False)
        rest = [*found, *grown, large]
        keep(*rest)
    if not quick:
        console.print(f"appended {len(timings) + len(rest)} lines to {out}", highlight=False, soft_wrap=True)
    if unequal:
        raise UnequalError(" ".join(unequal))


def _repeated(
    found: "list[tuple[Case, Timing]]", rounds: int, minutes: float, keep: "Callable[[Timing], None]"
) -> "list[Timing]":
    """The timings, the noisy ones repeated until they are tight or the time is over."""
    from holdfast.bench import time_case

    end, timings = time.monotonic() + 60 * minutes, [timing for _, timing in found]
    while any(timing.noisy for timing in timings) and time.monotonic() < end:
        for number, (case, _) in enumerate(found):
            if timings[number].noisy and time.monotonic() < end:
                timings[number] = time_case(case, rounds=rounds, known=timings[number])
    for (_, before), now in zip(found, timings, strict=True):
        if now is not before:
            keep(now)
    return timings


def _timings(timings: "list[Timing]", quick: bool) -> "Table":
    table = _table(
        "time of the peer / our time",
        "benchmark",
        "peer",
        "ratio",
        "middle 90 %",
        "target",
        "ours, ms",
        "difference",
        "passes",
    )
    for t in timings:
        low, high = t.interval
        mark = "" if t.reached or quick else " (missed)"
        apart = "" if t.difference is None else f"{t.difference:.1e}"
        ratio = f"{t.ratio:.2f}{' (noisy)' if t.noisy and not quick else ''}"
        passes = "" if t.passes is None else f"{t.passes[0]:,} / {t.passes[1]:,}"
        row = (ratio, f"{low:.2f} to {high:.2f}", f"{t.target:.3g}{mark}", f"{t.ours * 1e3:.1f}", apart, passes)
        table.add_row(t.name, t.peer, *row)
    return table


def _shares(found: "list[Share]", quick: bool) -> "Table":
    table = _table(
        "share of the matrix-product rate", "benchmark", "share", "range", "target", "passes/s", "machine, GFLOP/s"
    )
    for s in found:
        low, high = s.interval
        mark = "" if s.share >= s.target or quick else " (missed)"
        row = (f"{s.share:.2f}", f"{low:.2f} to {high:.2f}", f"{s.target:g}{mark}")
        table.add_row(s.name, *row, f"{s.passes_per_second:,.0f}", f"{s.sgemm_gflops:.0f}")
    return table


def _slopes(found: "list[Slope]") -> "Table":
    table = _table("growth of the cost (1: proportional; image side: 2)", "benchmark", "from", "to", "exponent")
    for s in found:
        ends = (f"{size}: {time * 1e3:.1f} ms" for size, time in zip(s.sizes, s.seconds, strict=True))
        table.add_row(s.name, *ends, f"{s.exponent:.2f}")
    return table


def _table(title: str, *heads: str) -> "Table":
    from rich.table import Table

    table = Table(title=title)
    for head in heads:
        table.add_column(head, justify="left" if head in ("benchmark", "peer") else "right")
    return table


def _append(path: Path, found: list[Any], memory: int) -> None:
    import json
    from dataclasses import asdict

    import torch

    from holdfast.runs import collect_provenance
    from holdfast.storage.lines import append_lines

    origin = collect_provenance(threads=torch.get_num_threads()) | {"peak_memory": memory}
    lines = [{"kind": type(row).__name__.lower(), **asdict(row), "origin": origin} for row in found]
    append_lines(path, "".join(json.dumps(line) + "\n" for line in lines))
