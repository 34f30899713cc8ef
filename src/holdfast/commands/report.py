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
    """Write one self-contained HTML page that compares runs, and print the results table.

    The page shows the results with intervals (next to the paper's numbers where they exist), the spread over the
    examples, pictures of images and maps, the training curves, every exclusion with its reason, and the provenance of
    each run. It can be opened from disk, sent by mail and read on a phone.

    Usage examples:
        holdfast report runs/*                                  # writes report.html
        holdfast report runs/natural runs/erar --tables tables  # also tables as Markdown, LaTeX and CSV
        holdfast report runs/* --figures figures                # also figures as PNG and PDF
        holdfast report runs/* --vote --out vote.html           # a blind vote on the maps instead of the report

    Args:
        runs: Run directories, or folders that contain run directories.
        out: HTML file to write.
        tables: Folder for the tables as Markdown, LaTeX and CSV.
        figures: Folder for the figures as PNG and PDF.
        vote: Write a page for a blind vote on the maps instead; the key to the methods goes to a second file.
        title: Title of the page.
        seed: Seed of the random order of the maps in the vote.
    """
    from rich.console import Console

    from holdfast.report import view_runs
    from holdfast.runs import find_runs

    console = Console()
    found, others = find_runs(runs)
    for name in others:
        console.print(f"skipped {name}: it contains no run", style="yellow", markup=False, highlight=False)
    views = view_runs(found)
    made = _vote(views, out, title, seed) if vote else _report(views, out, title, console)
    made += _tables(views, tables) + _figures(views, figures)
    for path in made:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _report(views: "tuple[RunView, ...]", out: Path, title: str, console: "Console") -> list[Path]:
    from holdfast.report import write_report
    from holdfast.report.html import page_notes
    from holdfast.report.render import to_rich
    from holdfast.report.tables import results_table
    from holdfast.report.view import datasets

    for group in datasets(views).values():
        console.print(to_rich(results_table(group)))
    for label, note in page_notes([view for view in views if view.audit is not None]):
        console.print(f"note: {label}: {note}", markup=False, emoji=False, highlight=False, soft_wrap=True)
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
