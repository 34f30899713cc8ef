"""The files of a run (rows, summary, panels, provenance, training log) and the statistics computed from them.

This package imports `storage` and the metric registry, never PyTorch.
"""

from holdfast.runs.bootstrap import Bootstrap, wilson
from holdfast.runs.conventions import CONVENTIONS, FAILED, metric_values
from holdfast.runs.difference import Difference, paired_difference
from holdfast.runs.panels import Panels, read_panels, write_panels
from holdfast.runs.provenance import collect_provenance, finish
from holdfast.runs.rows import OUTCOMES, ExampleRow, Examples, Rows, metrics_of
from holdfast.runs.run import Run, find_runs, is_run, read_run
from holdfast.runs.summary import RunInfo, describe, summarise, summarise_attack
from holdfast.runs.training_log import Log, read_log
from holdfast.runs.verdict import Verdict, add_verdict, judge
from holdfast.runs.worst import worst_rows
from holdfast.storage.json_files import read_json, write_json_atomic, write_text_atomic

__all__ = [
    "CONVENTIONS",
    "FAILED",
    "OUTCOMES",
    "Bootstrap",
    "Difference",
    "ExampleRow",
    "Examples",
    "Log",
    "Panels",
    "Rows",
    "Run",
    "RunInfo",
    "Verdict",
    "add_verdict",
    "collect_provenance",
    "describe",
    "find_runs",
    "finish",
    "is_run",
    "judge",
    "metric_values",
    "metrics_of",
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
