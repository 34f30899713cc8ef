"""The command `holdfast demo`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from holdfast.runs.names import CONTROL, REFERENCE, STRONGEST

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from holdfast.experiment.jobs import Job

METHODS = ("natural", "madry", "ig_sum_norm", "erar", "erar_plus")
PAIRS = (
    ("madry", "natural"),
    ("ig_sum_norm", "natural"),
    ("erar", "natural"),
    ("erar_plus", "natural"),
    ("erar_plus", "madry"),
)


def demo(
    out: Path = Path("runs/demo"),
    steps: int = 250,
    limit: int = 120,
    workers: Annotated[int, arg(name="workers")] = 2,
) -> None:
    """Train five small networks on the embedded digits, attack their maps and compare them.

    The five training methods are natural, madry, RAR (ig_sum_norm), erar and erar_plus. Their maps are attacked with
    the reference attack, with the strongest attack and with random noise. The command prints a table and writes
    report.html. It takes a few minutes on two cores and needs no download. After Ctrl-C, the same command resumes.

    Usage examples:
        holdfast demo
        holdfast demo --steps 400 --limit 360 --out runs/longer

    Args:
        out: Output folder for the five run directories and report.html.
        steps: Number of training steps of each network.
        limit: Number of test images whose maps are attacked.
        workers: Number of runs in parallel, each on one core.
    """
    from rich.console import Console

    from holdfast.commands.progress import run_with_progress
    from holdfast.experiment.local import run_local

    console = Console()
    jobs = _jobs(out, steps, limit)
    console.print(f"training {len(jobs)} networks on the digits, {steps} steps each, into {out}", highlight=False)
    run_with_progress(jobs, partial(run_local, workers=workers), steps=steps, rows=3 * limit, console=console)
    _show(jobs, out, console)


def _jobs(out: Path, steps: int, limit: int) -> "list[Job]":
    from holdfast.experiment.jobs import Job

    changes = (("train.steps", str(steps)), ("train.log_every", "10"), ("evaluate.limit", str(limit)))
    slowest_first = ("erar_plus", "erar", "ig_sum_norm", "madry", "natural")
    made = {m: Job(preset=f"digits/{m}", folder=out / m, changes=changes) for m in slowest_first}
    return [made[m] for m in slowest_first]


def _show(jobs: "list[Job]", out: Path, console: "Console") -> None:
    from holdfast.report import view_runs, write_report
    from holdfast.runs import read_run

    runs = {job.folder.name: job.folder for job in jobs}
    console.print(_table(runs))
    for sentence in comparisons(runs, PAIRS):
        console.print(sentence, highlight=False, soft_wrap=True)
    page = out / "report.html"
    write_report(view_runs([read_run(folder) for folder in runs.values()]), page, title="holdfast demo: digits")
    console.print(f"\nreport: {page} (open it in a browser; it works offline)", highlight=False, soft_wrap=True)


def _table(runs: dict[str, Path]) -> "RichTable":
    """A short table of medians; the report adds intervals, n and exclusions."""
    from rich.table import Table as RichTable

    from holdfast.runs import read_run

    found = {method: read_run(runs[method]).summary or {} for method in METHODS}
    first = found[METHODS[0]]
    seen = first.get("limit") or f"{first['n']} images"
    title = f"top-k kept and Kendall's tau: medians over correctly classified images ({seen})"
    table = RichTable(title=title, caption=f"accuracy on {first['natural_accuracy_n']} test images")
    for head in ("method", "accuracy", "under PGD", "random noise", "reference attack", "strongest attack"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for method, summary in found.items():
        attacks = [summary["attacks"][name] for name in (CONTROL, REFERENCE, STRONGEST)]
        pairs = [_pair(a["top_k"]["median"], a["kendall"]["median"]) for a in attacks]
        table.add_row(method, f"{summary['natural_accuracy']:.1%}", f"{summary['pgd_accuracy']:.1%}", *pairs)
    return table


def _pair(top_k: float | None, kendall: float | None) -> str:
    return "none attacked" if top_k is None or kendall is None else f"{top_k:.0%}  {kendall:.2f}"


def comparisons(runs: dict[str, Path], pairs: tuple[tuple[str, str], ...], attack: str = STRONGEST) -> list[str]:
    """One sentence per pair: the mean paired difference between the first and the second method, with its interval."""
    from holdfast.runs import paired_difference, read_run

    rows = {name: read_run(folder).rows_of(attack) for name, folder in runs.items()}
    said = []
    for better, base in pairs:
        parts = []
        for metric, title in (("top_k", "top-k"), ("kendall", "Kendall")):
            found = paired_difference(rows[base], rows[better], metric)
            if found.mean is None or found.mean_ci95 is None:
                continue
            low, high = found.mean_ci95
            doubt = " (the interval includes zero, so this may be chance)" if low <= 0 <= high else ""
            parts.append(f"{title} {found.mean:+.3f} [{low:+.3f}, {high:+.3f}]{doubt}")
        said.append(f"{better} minus {base}, mean paired difference, strongest attack: {'; '.join(parts)}")
    return said
