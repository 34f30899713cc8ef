"""Tables, figures and self-contained HTML pages from run directories. Never imports PyTorch."""

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
