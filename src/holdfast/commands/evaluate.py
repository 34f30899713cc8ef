"""The command `holdfast evaluate`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg


def evaluate(
    run: Annotated[Path, arg(metavar="RUN")],
    /,
    limit: int | None = None,
    pgd_limit: int | None = None,
    strongest_limit: int | None = None,
    strongest: bool = True,
    thorough: bool = False,
    universal: int = 0,
    as_before: bool = False,
    quality: bool = False,
    natural: Path | None = None,
    model: str | None = None,
    diagnose: int = 0,
    again: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Evaluate a trained run: accuracy, accuracy under PGD and APGD, and robustness of its maps.

    The attacks on the maps are the reference attack of the papers (evaluate.ifia), the strongest attack on the maps of
    centred and true logit (evaluate.strongest), and random noise on both maps. The command prints the results table.
    Rows are written to the run directory after every batch; run the same command again to resume.

    Usage examples:
        holdfast evaluate runs/a
        holdfast evaluate runs/a --limit 300 --pgd-limit 1000      # fewer test images, which is faster
        holdfast evaluate runs/a --again                           # an attack has a newer edition: measure it again
        holdfast evaluate runs/a --quality --natural runs/natural  # also measure the quality of the maps
        torchrun --nproc-per-node 2 -m holdfast evaluate runs/a    # several processes or GPUs share the images

    Args:
        run: Run directory, as written by `holdfast train`.
        limit: Number of test images whose maps are attacked, a stratified subset; by default as in the config.
        pgd_limit: Number of test images for the accuracy under PGD and APGD; by default as in the config.
        strongest_limit: Number of test images for the strongest attack, a part of those of --limit; by default as in
            the config.
        strongest: Also run the strongest attack, which takes the worst of several searches per image.
        thorough: Give the strongest attack ten times its passes per image.
        universal: Also apply one perturbation to all images, found on this many training images; 0 leaves it out.
        as_before: Use the protocol of version 0.1: the reference attack, the ensemble of eight attacks, random noise.
        quality: Also measure the quality of the maps: insertion and deletion in the order of the clean and of the
            attacked map, ROAD, max-sensitivity, RIS, ROS, completeness, and the similarity to the image and to maps of
            shuffled weights. This repeats the attack that decides (the strongest attack, if it was run), unless the
            same call of one process runs it anyway.
        natural: Run directory of a naturally trained network to compare the maps with; requires --quality.
        model: package.module:function that builds the custom network of the run and of --natural; it is never imported
            automatically.
        diagnose: Check the attacks for gradient masking on this many images; 0 skips the check.
        again: Measure attacks on the maps again whose settings differ from those of the rows in the run directory, such
            as an older edition of the strongest attack. Their old rows are deleted, all others are kept.
        device: Device such as cpu or cuda; auto uses the GPU if there is one.
        quiet: Do not show progress bars.
    """
    from rich.console import Console

    from holdfast.commands.processes import leads
    from holdfast.commands.progress import measuring
    from holdfast.errors import expected
    from holdfast.experiment.measure import MeasureOptions, measure
    from holdfast.recipes import THOROUGH
    from holdfast.report import view_runs
    from holdfast.report.quality_tables import controls_table, quality_table
    from holdfast.report.render import to_rich
    from holdfast.report.tables import results_table
    from holdfast.runs import read_run

    if natural is not None and not quality:
        raise expected("--natural only with --quality", got="--natural alone", fix="add --quality")
    options = MeasureOptions(
        limit=limit,
        pgd_limit=pgd_limit,
        strongest_limit=strongest_limit,
        strongest=strongest,
        passes=THOROUGH if thorough else None,
        universal=universal,
        as_before=as_before,
        quality=quality,
        natural=natural,
        network=model,
        diagnose=diagnose,
        again=again,
    )
    console = Console()
    with measuring(console, quiet or not leads()) as on_progress:
        measure(run, options, device=device, on_progress=on_progress)
    if not leads():
        return
    views = view_runs([read_run(run)])
    if views[0].maps is not None:
        console.print(views[0].maps.sentence, highlight=False, soft_wrap=True)
    for table in (results_table(views), controls_table(views), quality_table(views)):
        if table.rows:
            console.print(to_rich(table))
    console.print(f"rows: {run / 'examples.csv'}; next: holdfast report {run}", highlight=False, soft_wrap=True)
