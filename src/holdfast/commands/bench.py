"""The command `holdfast bench`."""

from pathlib import Path
from typing import Any


def bench(quick: bool = False, rounds: int = 7, out: Path = Path("benchmarks/results.jsonl")) -> None:
    """Measure our speed against the peers: interleaved in one process, same work, results checked to be equal.

    Prints the ratio of the peer's time to ours with the range of its middle nine tenths, and appends one JSON line a
    comparison, with versions and hardware. Needs the peers: pip install 'holdfast[dev]'.

        holdfast bench            minutes
        holdfast bench --quick    seconds; shows that everything runs, its figures mean nothing

    Args:
        quick: Tiny work and two rounds; nothing is written.
        rounds: How often each comparison is repeated.
        out: The file that gets the lines.
    """
    from rich.console import Console
    from rich.table import Table

    from holdfast.bench import cases, time_case

    console, table = Console(), Table(title="times faster than the peer")
    for head in ("what", "peer", "ratio", "middle 90 %", "target", "ours, ms", "results differ by"):
        table.add_column(head, justify="left" if head in ("what", "peer") else "right")
    timings = [time_case(case, rounds=2 if quick else rounds) for case in cases(quick=quick)]
    for t in timings:
        low, high = t.interval
        mark = "" if t.reached or quick else " (missed)"
        row = (f"{t.ratio:.2f}", f"{low:.2f} to {high:.2f}", f"{t.target:g}{mark}", f"{t.ours * 1e3:.1f}")
        table.add_row(t.name, t.peer, *row, f"{t.difference:.1e}")
    console.print(table)
    if not quick:
        _append(out, timings)
        console.print(f"appended {len(timings)} lines to {out}", highlight=False, soft_wrap=True)


def _append(path: Path, timings: list[Any]) -> None:
    import json
    from dataclasses import asdict

    import torch

    from holdfast.results import collect_provenance
    from holdfast.results.lines import append_lines

    origin = collect_provenance(threads=torch.get_num_threads())
    append_lines(path, "".join(json.dumps({**asdict(t), "origin": origin}) + "\n" for t in timings))
