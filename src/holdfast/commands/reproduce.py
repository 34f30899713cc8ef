"""The command `holdfast reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from holdfast.experiment.jobs import Job
    from holdfast.experiment.tables import PaperTable

MOST_SEEDS = 10
"""Runs of so many seeds are looked for when the page of results is written."""


def reproduce(
    table: Annotated[str, arg(metavar="TABLE")] = "",
    /,
    tier: str = "cpu",
    methods: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0,),
    out: Path = Path("runs"),
    limit: int | None = None,
    pgd_limit: int | None = None,
    launcher: Literal["local", "submitit"] = "local",
    workers: int = 1,
    show: Annotated[bool, arg(name="list")] = False,
) -> None:
    """Train and measure the methods of a table of the paper and print it, the paper's value in each cell.

    Each part whose result is already there is skipped, so a killed command goes on.

        holdfast reproduce --list                               every table and figure, and its state
        holdfast reproduce mnist --tier cpu
        holdfast reproduce mnist --methods madry erar --seeds 0 1
        holdfast reproduce ablation-cacr --tier cpu --limit 100
        holdfast reproduce digits                               the same methods on the embedded digits, minutes
        holdfast reproduce mnist --tier paper --launcher submitit --workers 8   on a Slurm cluster

    Args:
        table: What to reproduce, as --list names it.
        tier: The presets to use: paper, released-code, rar-config or cpu.
        methods: Only these methods of the table.
        seeds: Every method is trained once for each seed.
        out: Runs of tier cpu go to OUT/<dataset>/<method>[-seed], of other tiers to OUT/<tier>/...; the tables, as
            Markdown, LaTeX and CSV, to OUT/table-<name>/, and into OUT/README.md if it has a place for them.
        limit: Test images whose explanations are attacked; a seeded stratified subset.
        pgd_limit: Test images for the accuracy under PGD.
        launcher: This machine, or a Slurm cluster through submitit.
        workers: Runs side by side on this machine; cores of each task on a cluster.
        show: List the tables and stop.
    """
    from rich.console import Console

    from holdfast.errors import expected
    from holdfast.experiment.jobs import dependency_waves
    from holdfast.experiment.tables import TABLES
    from holdfast.report import view_runs, write_page
    from holdfast.runs import read_run

    console = Console()
    if show or not table:
        console.print(_list(out, tier))
        return
    if table not in TABLES:
        raise expected(
            f"a table out of {', '.join(TABLES)}", got=repr(table), fix="holdfast reproduce --list shows them"
        )
    wanted = TABLES[table]
    options = {k: v for k, v in {"limit": limit, "pgd_limit": pgd_limit}.items() if v is not None}
    jobs = wanted.jobs(out, tier=tier, methods=methods, seeds=seeds, options=options)
    for preset in [] if methods else wanted.left_out(tier):
        console.print(f"{preset} does not exist and is left out", style="yellow", highlight=False)
    natural = [
        job for job in jobs if wanted.quality and job.folder.name == "natural"
    ]  # the others are compared with it
    for part in [*dependency_waves(natural), *dependency_waves([job for job in jobs if job not in natural])]:
        _run(part, workers, launcher, console)
    _print(wanted, jobs, out, console)
    if tier == "cpu" and not options:  # the page shows all runs of the table, whichever were asked for now
        done = [job for job in wanted.jobs(out, tier=tier, seeds=range(MOST_SEEDS)) if job.finished]
        for path in write_page(view_runs([read_run(job.folder) for job in done]), out / "README.md", wanted.name):
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _list(out: Path, tier: str) -> "RichTable":
    from rich.table import Table as RichTable

    from holdfast.experiment.tables import FIGURES, TABLES, state_of

    listed = RichTable("name", "what the paper shows", f"state (tier {tier})", box=None)
    for known in TABLES.values():
        listed.add_row(known.name, known.title, state_of(known, out, tier))
    for name, (title, command) in FIGURES.items():
        listed.add_row(name, title, command)
    return listed


def _run(jobs: "list[Job]", workers: int, launcher: str, console: "Console") -> None:
    from holdfast.commands.progress import run_with_progress

    configs = [job.config() for job in jobs]
    steps = max(config.train.steps for config in configs)
    rows = max(3 * (jobs[0].options.get("limit") or config.evaluate.limit or 1000) for config in configs)
    run_with_progress(jobs, steps=steps, rows=rows, workers=workers, console=console, launcher=launcher)


def _print(table: "PaperTable", jobs: "list[Job]", out: Path, console: "Console") -> None:
    from holdfast.report import view_runs, write_tables
    from holdfast.report.render import to_rich
    from holdfast.report.tables import quality_table, results_table
    from holdfast.report.view import datasets
    from holdfast.runs import read_run

    views = view_runs([read_run(job.folder) for job in jobs])
    for group in datasets(views).values():
        console.print(to_rich(quality_table(group) if table.quality else results_table(group)))
    for path in write_tables(views, out / f"table-{table.name}"):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
