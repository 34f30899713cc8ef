"""The command `holdfast demo`."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from holdfast.runs.names import CONTROL, STRONGEST
from holdfast.runs.next_steps import Step

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from holdfast.experiment.demo import DemoPlan
    from holdfast.experiment.jobs import Job
    from holdfast.experiment.zoo_job import ZooJob

PAIRS = (("trades", "natural"), ("erar_plus", "natural"), ("erar_plus", "madry"), ("erar_plus", "trades"))
"""Methods that are compared on the digits: the second is subtracted from the first."""

WHY_CENTRED = (
    "A term common to all logits moves the map of the true logit and no prediction; the centred logit, the true logit "
    "minus the mean logit, does not have it."
)

NEXT = (
    Step(
        text="Audit your own network: how far can an invisible perturbation move its maps?",
        command="holdfast audit --model package.module:build --weights w.pt --data images/ --out runs/mine",
    ),
    Step(
        text="Harden it: fine-tune it so that its maps move less.",
        command="holdfast harden --model package.module:build --weights w.pt --data images/ --out runs/hardened",
    ),
    Step(
        text="Compare its explanations: which map holds best?",
        command="holdfast audit --model package.module:build --weights w.pt --data images/ --maps ig gradient gradcam "
        "--out runs/maps",
    ),
)


def demo(
    out: Path = Path("runs/demo"),
    quick: bool = False,
    steps: int | None = None,
    limit: int | None = None,
    workers: Annotated[int, arg(name="workers")] = 2,
) -> None:
    """Attack the maps of two trained networks, then train five networks on the digits and compare them.

    The first part audits two small residual networks that ship with the package, a naturally trained one and one
    trained by erar_plus, on images of Fashion-MNIST that also ship with it. The second part trains natural, madry,
    trades, erar and erar_plus on the digits of scikit-learn, with the same number of example-passes for every method
    but natural, and shows accuracy against stability of the maps.

    Both parts print a table; report.html shows both. On two quiet cores the first part takes about 20 seconds and the
    second about two minutes. Nothing is downloaded. After Ctrl-C, the same command resumes.

    Usage examples:
        holdfast demo
        holdfast demo --quick --out runs/smoke             # all parts in a minute; the figures mean nothing
        holdfast demo --steps 3000 --limit 360 --out runs/longer

    Args:
        out: Output folder for the run directories, two pictures and report.html.
        quick: Do as little as possible, to see that everything works.
        steps: Training steps of erar_plus on the digits, 900 by default; the other methods get as many example-passes.
        limit: Number of digits whose maps are attacked, 60 by default.
        workers: Number of runs in parallel, each on one core.
    """
    from rich.console import Console

    from holdfast.experiment.demo import QUICK, DemoPlan, audit_jobs, training_jobs

    console, started = Console(), time.monotonic()
    given = {key: value for key, value in {"steps": steps, "limit": limit}.items() if value is not None}
    plan = replace(QUICK if quick else DemoPlan(), **given)
    audits, trainings = audit_jobs(out, plan), training_jobs(out, plan)
    _first_part(audits, out, plan, workers, console)
    console.print(f"(after {time.monotonic() - started:.0f} seconds)\n", style="dim", highlight=False)
    _second_part(trainings, out, plan, workers, console)
    _finish([*audits, *trainings], out, console)


def _first_part(jobs: "list[ZooJob]", out: Path, plan: "DemoPlan", workers: int, console: "Console") -> None:
    from holdfast.experiment.demo import HARDENED, NATURAL

    console.print(
        f"1. Two trained networks, {plan.images} images of Fashion-MNIST: how far can a small perturbation move their "
        "maps?",
        highlight=False,
        soft_wrap=True,
    )
    for job in jobs:
        job.prepare()
    _run(jobs, plan.images, workers, console)
    runs = {NATURAL: jobs[0].folder, HARDENED: jobs[1].folder}
    console.print(_table(runs, f"map of the centred logit; perturbation of at most 8/255 per pixel. {WHY_CENTRED}"))
    _compare(runs, ((HARDENED, NATURAL),), console)
    _draw(runs.values(), out, console)


def _draw(folders: Iterable[Path], out: Path, console: "Console") -> None:
    """Draw the maps of the natural above those of the hardened network."""
    from holdfast.report import view_runs
    from holdfast.report.contrast import contrast_figure
    from holdfast.report.figures import save_png
    from holdfast.runs import read_run

    figure = contrast_figure(view_runs([read_run(folder) for folder in folders]))
    if figure is not None:
        _tell("picture", save_png(figure, out / "demo.png"), console)


def _second_part(jobs: "list[Job]", out: Path, plan: "DemoPlan", workers: int, console: "Console") -> None:
    from holdfast.experiment.demo import METHODS, PASSES
    from holdfast.report import view_runs
    from holdfast.report.figures import save_png, trade_off_figure
    from holdfast.report.looks import method_looks
    from holdfast.report.trade_off import trade_offs
    from holdfast.runs import read_run

    console.print(f"2. Training {len(jobs)} networks on the digits", highlight=False)
    _run(jobs, plan.limit, workers, console)
    folders = {job.folder.name: job.folder for job in jobs}
    runs = {method: folders[method] for method in METHODS}
    budget = f"{plan.steps * PASSES['erar_plus']:,} example-passes of training each (natural: as many steps as madry)"
    console.print(_table(runs, f"{budget}; map of the centred logit; perturbation of at most 0.15 per pixel"))
    _compare(runs, PAIRS, console)
    views = view_runs([read_run(folder) for folder in runs.values()])
    if plots := trade_offs(views, method_looks(views)):
        _tell("accuracy against stability", save_png(trade_off_figure(plots), out / "trade-off.png"), console)


def _finish(jobs: "list[Job]", out: Path, console: "Console") -> None:
    from holdfast.report import view_runs, write_report
    from holdfast.runs import read_run

    page = out / "report.html"
    write_report(view_runs([read_run(job.folder) for job in jobs]), page, title="holdfast demo", steps=NEXT)
    _tell("\nreport, works offline", page, console)
    console.print("\nnext, with your own model:", highlight=False)
    for step in NEXT:
        console.print(f"  {step.command}", highlight=False, soft_wrap=True, markup=False)


def _run(jobs: "Sequence[Job]", images: int, workers: int, console: "Console") -> None:
    from holdfast.commands.progress import run_with_progress
    from holdfast.experiment.local import run_local

    run_with_progress(jobs, partial(run_local, workers=workers), rows=2 * images, console=console)


def _table(runs: Mapping[str, Path], caption: str) -> "RichTable":
    """A short table of means; the report adds medians, intervals and exclusions."""
    from rich.table import Table as RichTable

    from holdfast.runs import read_run

    found = {method: read_run(folder).summary or {} for method, folder in runs.items()}
    first = next(iter(found.values()))
    k = first["attacks"][STRONGEST]["k"]
    title = f"top {k} pixels kept and Kendall's tau: means over the correctly predicted of {first['n']} images"
    table = RichTable(title=title, caption=caption)
    for head in ("method", "accuracy", "under PGD", "random noise", "strongest attack"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for method, summary in found.items():
        attacks = [summary["attacks"][name] for name in (CONTROL, STRONGEST)]
        pairs = [_pair(a["top_k"]["mean"], a["kendall"]["mean"]) for a in attacks]
        table.add_row(method, f"{summary['natural_accuracy']:.1%}", f"{summary['pgd_accuracy']:.1%}", *pairs)
    return table


def _pair(top_k: float | None, kendall: float | None) -> str:
    return "none attacked" if top_k is None or kendall is None else f"{top_k:.1%}  {kendall:.2f}"


def _compare(runs: Mapping[str, Path], pairs: tuple[tuple[str, str], ...], console: "Console") -> None:
    for sentence in comparisons(runs, pairs):
        console.print(sentence, highlight=False, soft_wrap=True)


def comparisons(runs: Mapping[str, Path], pairs: tuple[tuple[str, str], ...], attack: str = STRONGEST) -> list[str]:
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
        if parts:
            said.append(f"{better} minus {base}, mean paired difference, strongest attack: {'; '.join(parts)}")
    return said


def _tell(what: str, path: Path, console: "Console") -> None:
    console.print(f"{what}: {path}", highlight=False, soft_wrap=True)
