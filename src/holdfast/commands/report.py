"""The command `holdfast report`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.report.view import RunView


def report(
    runs: tuple[Path, ...],
    /,
    out: Path = Path("report.html"),
    tables: Path | None = None,
    figures: Path | None = None,
    vote: bool = False,
    title: str = "",
    seed: int = 0,
) -> None:
    """Turn run directories into one page that can be opened from disk, mailed and read on a phone.

    The page holds the results with intervals (and the paper's numbers where it has some), the spread over the
    examples, the pictures, the training curves, every exclusion with its reason, and where each number comes from.
    The first table is also printed here.

        holdfast report runs/*                                  writes report.html
        holdfast report runs/natural runs/erar --tables tables  also Markdown, LaTeX and CSV
        holdfast report runs/* --figures figures                also PNG and PDF
        holdfast report runs/* --vote --out vote.html           a blind vote on the maps, instead of the report

    Args:
        runs: Run directories, or folders that contain run directories.
        out: The page to write.
        tables: A folder for the tables as Markdown, LaTeX and CSV.
        figures: A folder for the figures as PNG and PDF.
        vote: Write a page that shows the methods' maps without names and in random order, and saves votes as CSV;
            the key that tells whose map is whose goes to a second file beside the page.
        title: The headline of the page.
        seed: Decides the random order of the vote.
    """
    from rich.console import Console

    from holdfast.report import view_runs
    from holdfast.runs import find_runs

    console = Console()
    found, others = find_runs(runs)
    for name in others:
        console.print(f"{name} holds no run and is left out", style="yellow", markup=False, highlight=False)
    views = view_runs(found)
    made = _vote(views, out, title, seed) if vote else _report(views, out, title, console)
    made += _tables(views, tables) + _figures(views, figures)
    for path in made:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _report(views: "tuple[RunView, ...]", out: Path, title: str, console: "Console") -> list[Path]:
    from holdfast.report import write_report
    from holdfast.report.render import to_rich
    from holdfast.report.tables import results_table
    from holdfast.report.view import datasets

    for group in datasets(views).values():
        console.print(to_rich(results_table(group)))
    return write_report(views, out, title=title)


def _vote(views: "tuple[RunView, ...]", out: Path, title: str, seed: int) -> list[Path]:
    from holdfast.report import write_vote

    return write_vote(views, out, title=title, seed=seed)


def _tables(views: "tuple[RunView, ...]", folder: Path | None) -> list[Path]:
    from holdfast.report import write_tables

    return write_tables(views, folder) if folder else []


def _figures(views: "tuple[RunView, ...]", folder: Path | None) -> list[Path]:
    from holdfast.report import write_figures

    return write_figures(views, folder) if folder else []
