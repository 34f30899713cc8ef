"""From run directories to tables, figures and one self-contained page. Never loads PyTorch; the rest only when used."""

from holdfast.report.view import RunView, view_runs
from holdfast.report.vote import count_votes
from holdfast.report.write import write_figures, write_page, write_report, write_tables, write_vote

__all__ = [
    "RunView",
    "count_votes",
    "view_runs",
    "write_figures",
    "write_page",
    "write_report",
    "write_tables",
    "write_vote",
]
