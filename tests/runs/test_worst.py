"""The worst of several attacks, example by example."""

from typing import Any

from tests.runs.material import example_row

from holdfast.metrics import METRICS
from holdfast.runs import ExampleRow, worst_rows


def row(attack: str, number: int = 1, outcome: Any = "attacked", **values: Any) -> ExampleRow:
    return example_row(attack=attack, id=number, label=0, prediction=0, outcome=outcome, **values)


def test_each_metric_has_its_own_worst_value() -> None:
    rows = [
        row("one", top_k=0.5, kendall=0.2, center_shift=3.0),
        row("two", top_k=0.4, kendall=0.3, center_shift=1.0),
        row("random", top_k=0.1),
    ]
    (found,) = worst_rows(rows, ["one", "two"])
    assert found.scores == dict.fromkeys(METRICS) | {"top_k": 0.4, "kendall": 0.2, "center_shift": 3.0}
    assert (found.attack, found.outcome) == ("one + two", "attacked")


def test_an_attack_that_failed_does_not_hide_one_that_did_not() -> None:
    rows = [row("one", outcome="label_lost"), row("two", top_k=0.4)]
    (found,) = worst_rows(rows, ["one", "two"])
    assert (found.outcome, found.score("top_k")) == ("attacked", 0.4)


def test_all_failed_is_failed_and_an_example_not_tried_by_all_is_left_out() -> None:
    rows = [row("one", outcome="unmoved"), row("two", outcome="label_lost"), row("one", number=2, top_k=0.5)]
    (found,) = worst_rows(rows, ["one", "two"])
    assert (found.id, found.outcome, found.score("top_k")) == (1, "unmoved", None)
