"""The run directory: what an evaluation writes, what the report reads, and the statistics between them (no PyTorch)."""

from holdfast.results.bootstrap import Bootstrap, wilson
from holdfast.results.conventions import CONVENTIONS, FAILED, metric_values
from holdfast.results.difference import Difference, paired_difference
from holdfast.results.examples import COLUMNS, METRICS, OUTCOMES, ExampleRow, Examples, Rows
from holdfast.results.files import read_json, write_json_atomic, write_text_atomic
from holdfast.results.panels import Panels, read_panels, write_panels
from holdfast.results.provenance import collect_provenance, finish
from holdfast.results.run import Run, find_runs, is_run, read_run
from holdfast.results.summary import Facts, describe, summarise, summarise_attack
from holdfast.results.training_log import Log, append_log, read_log
from holdfast.results.worst import worst_rows

__all__ = [
    "COLUMNS",
    "CONVENTIONS",
    "FAILED",
    "METRICS",
    "OUTCOMES",
    "Bootstrap",
    "Difference",
    "ExampleRow",
    "Examples",
    "Facts",
    "Log",
    "Panels",
    "Rows",
    "Run",
    "append_log",
    "collect_provenance",
    "describe",
    "find_runs",
    "finish",
    "is_run",
    "metric_values",
    "paired_difference",
    "read_json",
    "read_log",
    "read_panels",
    "read_run",
    "summarise",
    "summarise_attack",
    "wilson",
    "worst_rows",
    "write_json_atomic",
    "write_panels",
    "write_text_atomic",
]
