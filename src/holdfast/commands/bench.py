"""The command `holdfast bench`."""

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from holdfast.bench import Memory, Row, Share, Slope, Timing


def bench(
    quick: bool = False,
    rounds: int = 7,
    only: str = "",
    minutes: float = 20.0,
    out: Path = Path("benchmarks/results.jsonl"),
) -> None:
    """Benchmark holdfast against other libraries (peers).

    Both sides do the same work in one process, in alternating rounds, and their results are checked to be equal. The
    command prints the ratio of the peer's time to ours, the share of the machine's matrix-product rate that the
    innermost loops reach, the growth of the cost with the size, and the peak memory. Ratios and shares come with a 95 %
    confidence interval of their median, and a target is met if the lower end of the interval meets it. A row is noisy
    if the interval is wider than a tenth of the median; noisy rows are repeated. The command appends the results, with
    versions and hardware, to a JSON lines file; of two lines of the same row in one run, the later one has more
    rounds. Install the peers in a copy of the repository: pip install '.[dev]'.

    Usage examples:
        holdfast bench                 # all benchmarks, fifteen to twenty minutes and --minutes
        holdfast bench --only Kendall  # only comparisons whose name contains "Kendall"
        holdfast bench --quick         # seconds; checks that everything runs, the timings are meaningless

    Args:
        quick: Use tiny inputs and two rounds; write nothing.
        rounds: Number of rounds per comparison; long comparisons use at most three.
        only: Run only the comparisons whose name contains this text.
        minutes: Repeat noisy rows for at most this many minutes.
        out: JSON lines file to append the results to.
    """
    from rich.console import Console
    from rich.progress import track

    from holdfast.bench import Share, Timing, UnequalError, memory, peak_memory, slopes

    console, count = Console(), 2 if quick else rounds

    def keep(*found: Any) -> None:  # write each result immediately, so that an interrupted run keeps its results
        if not quick:
            _append(out, list(found), peak_memory())

    found_so_far, unequal = [], []
    for measure in track(_measurements(quick, only), "comparing", console=console, transient=True):
        try:
            found_so_far.append((measure, measure(rounds=count)))
            keep(found_so_far[-1][1])
        except UnequalError as error:  # run the other comparisons first; the command fails at the end
            unequal.append(str(error))
    rest: list[Any] = [] if only else [*slopes(quick=quick), memory(quick=quick)]
    keep(*rest)
    rows = [row for _, row in found_so_far] if quick else _repeated(found_so_far, count, minutes, keep)
    console.print(_timings([row for row in rows if isinstance(row, Timing)], quick))
    if not only:
        *grown, large = rest
        console.print(_shares([row for row in rows if isinstance(row, Share)], quick), _slopes(grown))
        console.print(_memory(large), highlight=False)
        console.print(f"peak memory of this process: {peak_memory() / 2**20:,.0f} MiB", highlight=False)
    if not quick:
        console.print(f"appended the results to {out}", highlight=False, soft_wrap=True)
    if unequal:
        raise UnequalError(" ".join(unequal))


def _measurements(quick: bool, only: str) -> "list[Callable[..., Row]]":
    """The functions `measure(rounds=, known=)` of all rows; `only` selects comparisons and leaves out the shares."""
    from holdfast.bench import cases, share_cases, time_case, time_share

    comparisons = [case for case in cases(quick=quick) if only.lower() in case.name.lower()]
    shares = [] if only else share_cases(quick=quick)
    return [*(partial(time_case, case) for case in comparisons), *(partial(time_share, case) for case in shares)]


def _repeated(
    found: "list[tuple[Callable[..., Row], Row]]", rounds: int, minutes: float, keep: "Callable[[Row], None]"
) -> "list[Row]":
    """The rows, the noisy ones measured again until they are tight or the time is over."""
    end, rows = time.monotonic() + 60 * minutes, [row for _, row in found]
    while any(row.noisy for row in rows) and time.monotonic() < end:
        for number, (measure, _) in enumerate(found):
            if rows[number].noisy and time.monotonic() < end:
                rows[number] = measure(rounds=rounds, known=rows[number])
    for (_, before), now in zip(found, rows, strict=True):
        if now is not before:
            keep(now)
    return rows


def _timings(timings: "list[Timing]", quick: bool) -> "Table":
    table = _table(
        "time of the peer / our time",
        "benchmark",
        "peer",
        "ratio",
        "95 % interval",
        "target",
        "ours, ms",
        "difference",
        "passes",
    )
    for t in timings:
        apart = "" if t.difference is None else f"{t.difference:.1e}"
        passes = "" if t.passes is None else f"{t.passes[0]:,} / {t.passes[1]:,}"
        table.add_row(t.name, t.peer, *_against_target(t, quick), f"{t.ours * 1e3:.1f}", apart, passes)
    return table


def _against_target(row: "Row", quick: bool) -> tuple[str, str, str]:
    """The cells for the median, its interval and the target; tiny inputs miss nothing."""
    low, high = row.median_interval
    noisy = " (noisy)" if row.noisy and not quick else ""
    return f"{row.value:.2f}{noisy}", f"{low:.2f} to {high:.2f}", f"{row.target:.3g}{_missed(row.reached or quick)}"


def _missed(reached: bool) -> str:
    return "" if reached else " (missed)"


def _memory(large: "Memory") -> str:
    """The peak memory beside its target."""
    target = f"target: at most {large.target / 2**20:,.0f}{_missed(large.reached)}"
    return f"peak memory, {large.name}: {large.peak / 2**20:,.0f} MiB ({target})"


def _shares(found: "list[Share]", quick: bool) -> "Table":
    table = _table(
        "share of the matrix-product rate",
        "benchmark",
        "share",
        "95 % interval",
        "target",
        "passes/s",
        "machine, GFLOP/s",
    )
    for s in found:
        table.add_row(s.name, *_against_target(s, quick), f"{s.passes_per_second:,.0f}", f"{s.sgemm_gflops:.0f}")
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
