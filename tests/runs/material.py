"""Rows and refusals for the tests of the results."""

from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.metrics import METRICS
from holdfast.runs import ExampleRow, RunInfo


def example_row(**values: Any) -> ExampleRow:
    """A row with a column for every metric, those that are not given being empty."""
    scores = {name: values.pop(name, None) for name in METRICS}
    return ExampleRow(scores=scores, **values)


def row(example: int, top_k: float | None = None, outcome: str = "attacked", **more: Any) -> ExampleRow:
    known: dict[str, Any] = {"attack": "ifia-topk", "label": 1, "prediction": 1, "kendall": top_k} | more
    return example_row(id=example, top_k=top_k, outcome=outcome, **known)


def refusal(action: Callable[[], Any]) -> str:
    """What holdfast says against it, "" if nothing; any other exception is a failure."""
    try:
        action()
    except HoldfastError as error:
        return str(error)
    return ""


FOUR = [row(0, 0.2), row(1, 0.4), row(2, outcome="unmoved"), row(3, outcome="misclassified", prediction=2)]
INFO = RunInfo(dataset="digits", method="natural", preset="cpu", seed=0)
