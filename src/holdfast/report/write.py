"""Write reports, vote pages, tables and figures to files; each file is written atomically."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.report.ablations import ablation_table
from holdfast.report.before_after import BeforeAfter
from holdfast.report.compare import compare
from holdfast.report.figures import draw_figures, safe_name, save_figure
from holdfast.report.html import report_html
from holdfast.report.more_tables import checks_table, costs_table, means_table, paired_table, worst_table
from holdfast.report.quality_tables import controls_table, natural_maps_table, quality_table
from holdfast.report.render import to_csv, to_latex, to_markdown
from holdfast.report.tables import Table, conventions_table, exclusions_table, results_table
from holdfast.report.view import RunView, datasets
from holdfast.report.vote import vote_pages
from holdfast.runs.next_steps import Step
from holdfast.storage.json_files import write_text_atomic

_MORE = (
    controls_table,
    quality_table,
    means_table,
    paired_table,
    ablation_table,
    worst_table,
    checks_table,
    costs_table,
)
_FORMATS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}


def write_report(
    views: Sequence[RunView],
    path: Path,
    *,
    title: str = "",
    before_after: BeforeAfter | None = None,
    steps: Sequence[Step] = (),
) -> list[Path]:
    """Write the report page, with a comparison before and after and next steps if given; return its path in a list."""
    write_text_atomic(path, report_html(views, title=title, before_after=before_after, steps=steps))
    return [path]


def write_vote(views: Sequence[RunView], path: Path, *, title: str = "", seed: int = 0) -> list[Path]:
    """Write the vote page and, next to it, the key file, which voters must not see."""
    page, key = vote_pages(views, title=title, seed=seed)
    beside = path.with_name(f"{path.stem}-key.csv")
    write_text_atomic(path, page)
    write_text_atomic(beside, key)
    return [path, beside]


def write_tables(views: Sequence[RunView], folder: Path) -> list[Path]:
    """Write every table as Markdown, LaTeX and CSV; return the paths."""
    paths = []
    for table in all_tables(views):
        for ending, render in _FORMATS.items():
            paths.append(folder / f"{safe_name(table.name)}.{ending}")
            write_text_atomic(paths[-1], render(table))
    return paths


def write_page(views: Sequence[RunView], page: Path, name: str) -> list[Path]:
    """Insert the tables into a Markdown page, between `<!-- begin NAME -->` and `<!-- end NAME -->`; return its path.

    A page without these two markers is not changed.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    head, found, rest = (page.read_text(encoding="utf-8") if page.is_file() else "").partition(begin)
    if not found or end not in rest:
        return []
    tables = "\n".join(to_markdown(table) for table in all_tables(views))
    write_text_atomic(page, f"{head}{begin}\n\n{tables}\n{end}{rest.split(end, 1)[1]}")
    return [page]


def write_figures(views: Sequence[RunView], folder: Path) -> list[Path]:
    """Write every figure as PNG and PDF; return the paths."""
    return [path for name, figure in draw_figures(views) for path in save_figure(figure, folder, name)]


def all_tables(views: Sequence[RunView]) -> list[Table]:
    """All non-empty tables: those of each dataset, then those over all datasets."""
    groups = datasets(views).values()
    by_dataset = [
        table for group in groups for table in (results_table(group, compare(group)), *(make(group) for make in _MORE))
    ]
    tables = [*by_dataset, natural_maps_table(views), conventions_table(views), exclusions_table(views)]
    return [table for table in tables if table.rows]
