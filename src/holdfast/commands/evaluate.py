"""The command `holdfast evaluate`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg


def evaluate(
    run: Annotated[Path, arg(metavar="RUN")],
    /,
    limit: int | None = None,
    pgd_limit: int | None = None,
    ensemble: bool = True,
    quality: bool = False,
    natural: Path | None = None,
    model: str | None = None,
    diagnose: int = 0,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Measure a trained run: accuracy, accuracy under PGD, and how far its explanations can be moved.

    The attacks are those of the run's config (evaluate.pgd, evaluate.ifia, evaluate.ensemble). Rows are written to
    the run directory as they come; stopped, the same command goes on where it was.

        holdfast evaluate runs/a
        holdfast evaluate runs/a --limit 300 --pgd-limit 1000     fewer test images, a seeded stratified subset
        holdfast evaluate runs/a --quality --natural runs/natural also the quality of the maps

    Args:
        run: The run directory, as `holdfast train` writes it.
        limit: Test images whose explanations are attacked.
        pgd_limit: Test images for the accuracy under PGD.
        ensemble: Also run the strong attack, eight attacks of which the worst counts for each image.
        quality: Also insertion, deletion, completeness and the check with shuffled weights.
        natural: The run of a naturally trained network, to compare the maps with.
        model: package.module:function of an own network; needed for runs that trained one, since nothing that a
            file names is imported unasked.
        diagnose: Check the attack itself for blindness on this many images.
        device: cpu, cuda, ...; auto takes the GPU if there is one.
        quiet: No progress line.
    """
    from rich.console import Console

    from holdfast.commands.progress import measuring
    from holdfast.errors import expected
    from holdfast.experiment.measure import MeasureOptions, measure
    from holdfast.report import view_runs
    from holdfast.report.render import to_rich
    from holdfast.report.tables import results_table
    from holdfast.runs import read_run

    if natural is not None and not quality:
        raise expected("--natural only with --quality", got="--natural alone", fix="add --quality")
    options = MeasureOptions(
        limit=limit,
        pgd_limit=pgd_limit,
        ensemble=ensemble,
        quality=quality,
        natural=natural,
        network=model,
        diagnose=diagnose,
    )
    console = Console()
    with measuring(console, quiet) as on_progress:
        measure(run, options, device=device, on_progress=on_progress)
    console.print(to_rich(results_table(view_runs([read_run(run)]))))
    console.print(f"rows: {run / 'examples.csv'}; page: holdfast report {run}", highlight=False, soft_wrap=True)
