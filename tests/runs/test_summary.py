"""What a failed attack counts as, summaries and paired differences, against values worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.material import FOUR, INFO, row

from holdfast.errors import InputError
from holdfast.metrics import METRICS
from holdfast.runs import (
    OUTCOMES,
    metric_values,
    paired_difference,
    read_json,
    summarise,
    summarise_attack,
    wilson,
    write_json_atomic,
)


@pytest.mark.parametrize(
    ("convention", "values"), [("failure_is_1", [0.2, 0.4, 1.0]), ("dropped", [0.2, 0.4]), ("worst", [0.2, 0.4, 0.2])]
)
def test_conventions_by_hand(convention: Any, values: list[float]) -> None:
    ids, found = metric_values(FOUR, "top_k", convention)
    assert found.tolist() == values
    assert ids.tolist() == [0, 1, 2][: len(values)]


def test_centre_shift_counts_the_other_way_round() -> None:
    rows = [row(0, 0.5, center_shift=2.0), row(1, 0.5, center_shift=5.0), row(2, outcome="label_lost")]
    assert metric_values(rows, "center_shift")[1].tolist() == [2.0, 5.0, 0.0]
    assert metric_values(rows, "center_shift", "worst")[1].tolist() == [2.0, 5.0, 5.0]


def test_worst_of_nothing_is_not_available() -> None:
    lost = [row(0, outcome="label_lost")]
    assert len(metric_values(lost, "top_k", "worst")[1]) == 0
    assert metric_values(lost, "top_k")[1].tolist() == [1.0]


def test_unknown_metric_is_refused() -> None:
    with pytest.raises(InputError, match="expected metric in top_k"):
        metric_values(FOUR, "topk")


def test_summary_of_an_attack_by_hand() -> None:
    summary = summarise_attack(FOUR)
    assert summary["top_k"]["median"] == 0.4
    assert summary["top_k"]["n"] == 3
    assert summary["failed_share"] == pytest.approx(1 / 3)
    assert summary["outcomes"] == {"attacked": 2, "misclassified": 1, "label_lost": 0, "unmoved": 1, "nan_map": 0}
    dropped = summary["conventions"]["dropped"]["top_k"]
    assert (dropped["median"], dropped["mean"], dropped["n"]) == pytest.approx((0.3, 0.3, 2))
    assert dropped["ci95"] == pytest.approx((0.2, 0.4))
    assert [item["n"] for item in summary["exclusions"]] == [1, 1, *([2] * (len(METRICS) - 2))]
    assert summary["exclusions"][0]["reason"].startswith("misclassified: wrong before")
    assert any("1 of 3 attacks failed" in text for text in summary["warnings"])
    assert any("only 3 examples" in text for text in summary["warnings"])


def test_every_exclusion_is_counted() -> None:
    rows = [row(i, outcome=outcome) for i, outcome in enumerate(OUTCOMES) if outcome != "attacked"]
    summary = summarise_attack(rows)
    assert sum(item["n"] for item in summary["exclusions"]) == len(rows)
    assert summary["failed_share"] == 1.0


def test_wins_count_attacked_examples_only() -> None:
    rows = [
        row(0, 0.1, winner="a"),
        row(1, 0.1, winner="b"),
        row(2, 0.3, winner="a"),
        row(3, outcome="label_lost", winner="a"),
    ]
    assert summarise_attack(rows)["wins"] == {"a": 2, "b": 1}


def test_summary_has_the_promised_keys_and_no_nan(tmp_path: Path) -> None:
    rows = [*FOUR, row(0, 0.9, attack="random"), row(1, outcome="nan_map", attack="random")]
    summary = summarise(rows, INFO)
    promised = (
        "dataset method preset seed n natural_accuracy pgd_accuracy example_passes train_seconds provenance attacks"
    )
    assert set(promised.split()) <= set(summary)
    assert summary["n"] == 4
    assert summary["natural_accuracy"] == 0.75
    assert summary["natural_accuracy_ci95"] == wilson(3, 4)
    assert summary["pgd_accuracy"] is None
    assert set(summary["attacks"]) == {"ifia-topk", "random"}
    write_json_atomic(tmp_path / "summary.json", summary | {"extra": [float("nan"), np.float32(0.5), Path("/a/b")]})
    assert "NaN" not in (tmp_path / "summary.json").read_text()
    assert read_json(tmp_path / "summary.json")["extra"] == [None, 0.5, "b"]


def test_steps_without_a_gradient_reach_the_summary() -> None:
    rows = [row(0, 0.5, steps=10, random_steps=1), row(1, 0.5, steps=10, random_steps=7), row(2, 0.5)]
    summary = summarise_attack(rows)
    assert summary["random_step_share"] == 0.4
    assert any("40% of the steps had no gradient" in text for text in summary["warnings"])
    few = summarise_attack([row(i, 0.5, steps=100, random_steps=i) for i in range(2)])
    assert few["random_step_share"] == 0.005
    assert not any("gradient" in text for text in few["warnings"])
    assert "only 2 examples were attacked: the intervals are rough." in few["warnings"]
    assert "only 1 example was attacked: the intervals are rough." in summarise_attack([row(0, 0.5)])["warnings"]
    assert "random_step_share" not in summarise_attack([row(0, 0.5)])


def test_notes_of_an_attack_reach_the_summary_once() -> None:
    rows = [row(i, 0.5, notes="the search ran out of time") for i in range(3)]
    assert summarise_attack(rows)["warnings"].count("the search ran out of time") == 1


def test_paired_difference_by_hand() -> None:
    a = [row(i, v) for i, v in enumerate([0.1, 0.2, 0.3])] + [row(7, 0.9)]
    b = [row(i, v) for i, v in enumerate([0.2, 0.4, 0.9])] + [row(8, outcome="misclassified")]
    difference = paired_difference(a, b, "top_k")
    assert difference.median == pytest.approx(0.2)
    assert difference.mean == pytest.approx(0.3)
    assert (difference.n, difference.unpaired) == (3, 1)
    assert difference.ci95 is not None
    assert difference.ci95[0] >= 0.1 - 1e-9


def test_pairing_narrows_the_interval() -> None:
    base = np.random.default_rng(0).random(200) * 0.8
    a, b = [row(i, v) for i, v in enumerate(base)], [row(i, v + 0.05) for i, v in enumerate(base)]
    difference = paired_difference(a, b, "top_k")
    assert difference.mean_ci95 == pytest.approx((0.05, 0.05))
    assert not difference.includes_zero
    assert paired_difference(a, a, "top_k").includes_zero


def test_paired_difference_without_common_examples_says_so() -> None:
    difference = paired_difference([row(0, 0.1)], [row(1, 0.1)], "kendall")
    assert difference.n == 0
    assert difference.ci95 is None
    assert difference.includes_zero
    with pytest.raises(InputError, match="rows of one attack"):
        paired_difference([row(0, 0.1), row(0, 0.1, attack="random")], [row(0, 0.1)], "kendall")
