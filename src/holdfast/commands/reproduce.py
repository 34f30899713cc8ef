"""The command `holdfast reproduce`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from holdfast.experiment.slurm_job import SlurmSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from holdfast.experiment.jobs import Job
    from holdfast.experiment.tables import PaperTable

MOST_SEEDS = 10
"""Number of seeds to search for finished runs when OUT/README.md is written."""


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
    slurm: SlurmSettings = SlurmSettings(),  # noqa: B008 - frozen
    show: Annotated[bool, arg(name="list")] = False,
) -> None:
    """Reproduce a table of the paper: train and evaluate its methods, and print our values next to the published ones.

    The default tier, cpu, is a short version for two cores; the tier paper uses the settings of the paper. Finished
    parts are skipped, so after an interruption the same command resumes.

    Usage examples:
        holdfast reproduce --list                                   # all tables and figures, with their state
        holdfast reproduce digits                                   # the same methods on the digits, minutes
        holdfast reproduce mnist --tier cpu
        holdfast reproduce mnist --methods madry erar --seeds 0 1
        holdfast reproduce ablation-cacr --tier cpu --limit 100
        # on a Slurm cluster: one job per run, each with 8 cores and one GPU
        holdfast reproduce mnist --tier paper --launcher submitit --workers 8 --slurm.gpus 1 --slurm.partition gpu

    Args:
        table: Name of the table, as shown by --list.
        tier: Tier of the presets: paper, released-code, rar-config or cpu.
        methods: Run only these methods of the table.
        seeds: Seeds; every method is trained once per seed.
        out: Output folder. Tier cpu writes runs to OUT/<dataset>/<method>[-seedN], other tiers to OUT/<tier>/...
            Tables go to OUT/table-<name>/ and, if it has markers for them, into OUT/README.md.
        limit: Number of test images whose maps are attacked, a stratified subset; by default as in the preset.
        pgd_limit: Number of test images for the accuracy under PGD and APGD; by default as in the preset.
        launcher: Run on this machine (local) or on a Slurm cluster (submitit). Jobs that a cluster ends early are sent
            again and resume; the logs are in OUT/submitit.
        workers: Number of parallel runs on this machine, or number of cores and threads per process on a cluster.
        slurm: What every job asks Slurm for.
        show: List the tables and exit.
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
        raise expected(f"a table from {', '.join(TABLES)}", got=repr(table), fix="holdfast reproduce --list shows them")
    wanted = TABLES[table]
    options = {k: v for k, v in {"limit": limit, "pgd_limit": pgd_limit}.items() if v is not None}
    if options:
        _check_limits(limit, pgd_limit)
    jobs = wanted.jobs(out, tier=tier, methods=methods, seeds=seeds, options=options)
    for preset in [] if methods else wanted.left_out(tier):
        console.print(f"skipped {preset}: there is no such preset", style="yellow", highlight=False)
    launch = _launch(launcher, workers, slurm, out, console)
    natural = [
        job for job in jobs if wanted.quality and job.folder.name == "natural"
    ]  # the maps of the others are compared with it
    for part in [*dependency_waves(natural), *dependency_waves([job for job in jobs if job not in natural])]:
        _run(part, launch, console)
    _print(wanted, jobs, out, console)
    if tier == "cpu" and not options:  # OUT/README.md shows all finished runs of the table, not only those of this call
        done = [job for job in wanted.jobs(out, tier=tier, seeds=range(MOST_SEEDS)) if job.finished]
        for path in write_page(view_runs([read_run(job.folder) for job in done]), out / "README.md", wanted.name):
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _check_limits(limit: int | None, pgd_limit: int | None) -> None:
    """Refuse numbers of images below 1 before anything is trained."""
    from holdfast.experiment.measure import MeasureOptions  # imports PyTorch, which the list of tables does not need

    MeasureOptions(limit=limit, pgd_limit=pgd_limit)


def _list(out: Path, tier: str) -> "RichTable":
    from rich.table import Table as RichTable

    from holdfast.experiment.tables import FIGURES, TABLES, state_of

    listed = RichTable("name", "what the paper shows", f"state (tier {tier})", box=None)
    for known in TABLES.values():
        listed.add_row(known.name, known.title, state_of(known, out, tier))
    for name, (title, command) in FIGURES.items():
        listed.add_row(name, title, command)
    return listed


def _launch(
    launcher: str, workers: int, slurm: SlurmSettings, out: Path, console: "Console"
) -> Callable[..., list[Path]]:
    from holdfast.errors import expected
    from holdfast.experiment.local import run_local
    from holdfast.experiment.slurm import run_slurm

    if launcher == "local":
        if slurm != SlurmSettings():
            raise expected("--slurm.* only with --launcher submitit", got="--launcher local")
        return partial(run_local, workers=workers)
    tell = partial(console.print, highlight=False, soft_wrap=True)
    return partial(run_slurm, cores=workers, settings=slurm, logs=out / "submitit", tell=tell)


def _run(jobs: "list[Job]", launch: Callable[..., list[Path]], console: "Console") -> None:
    from holdfast.commands.progress import run_with_progress

    configs = [job.config() for job in jobs]
    rows = max(3 * (jobs[0].options.get("limit") or config.evaluate.limit or 1000) for config in configs)
    run_with_progress(jobs, launch, rows=rows, console=console)


def _print(table: "PaperTable", jobs: "list[Job]", out: Path, console: "Console") -> None:
    from holdfast.report import view_runs, write_tables
    from holdfast.report.quality_tables import natural_maps_table, quality_table
    from holdfast.report.render import to_rich
    from holdfast.report.tables import results_table
    from holdfast.report.view import datasets
    from holdfast.runs import read_run

    views = view_runs([read_run(job.folder) for job in jobs])
    for group in datasets(views).values():
        console.print(to_rich(quality_table(group) if table.quality else results_table(group)))
    if table.quality:
        console.print(to_rich(natural_maps_table(views)))
    for path in write_tables(views, out / f"table-{table.name}"):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
