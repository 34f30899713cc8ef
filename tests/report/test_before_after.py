"""The comparison of a network before and after hardening, in words."""

from dataclasses import replace

import pytest
from tests.report.runs import BETTER, gain


def test_a_gain_and_its_cost() -> None:
    assert BETTER.verdict == (
        "The maps hold better: under the strongest attack the median image keeps 52.0 % of the top pixels instead of "
        "30.0 %, and the accuracy changed by -1.5 points to 96.5 %."
    )
    assert BETTER.gain_lines == (
        "top-k +21.0 points [+15.0, +27.0], difference of the medians +21.0, n = 40 pairs",
        "Kendall +0.150 [+0.100, +0.200], difference of the medians +0.150, n = 40 pairs",
    )
    said = BETTER.text()
    assert "median of 42 images before, 40 after" in said
    assert "Accuracy under PGD" in said
    assert "10.0 %    60.0 %   200 images" in said
    assert said.endswith("Ten steps.\nnote: few images")
    assert BETTER.plain()["gains"]["top_k"]["mean_ci95"] == (0.15, 0.27)


@pytest.mark.parametrize(
    ("low", "high", "start"),
    [(-0.1, 0.1, "No clear gain"), (-0.3, -0.1, "The maps hold less well"), (0.01, 0.1, "The maps hold better")],
)
def test_the_interval_decides(low: float, high: float, start: str) -> None:
    found = replace(BETTER, gains={"top_k": gain("top_k", (low + high) / 2, low, high)}, attack="ifia-topk")
    assert found.verdict.startswith(f"{start}: under the reference attack (ifia-topk) the median")


def test_few_pairs_cannot_say() -> None:
    three = replace(BETTER.gains["top_k"], n=3)
    assert replace(BETTER, gains={"top_k": three}).verdict == (
        "This comparison cannot say whether the maps hold better: only 3 images were attacked before and after, and at "
        "least 20 are needed."
    )
    one = replace(BETTER, gains={"top_k": replace(three, n=1)})
    assert "only 1 image was attacked before and after" in one.verdict
    assert replace(BETTER, gains={"top_k": replace(three, n=20)}).verdict.startswith("The maps hold better")


def test_doubts_about_the_side_that_seems_better() -> None:
    doubts = (("the attack is weaker than noise",), ("accuracy is 10 %, near chance", "half of the attacks failed"))
    found = replace(BETTER, doubts=doubts)
    assert found.verdict == (
        "This comparison cannot say whether the maps hold better: after hardening, accuracy is 10 %, near chance; half "
        "of the attacks failed."
    )
    assert found.plain()["verdict"] == found.verdict
    worse = replace(found, gains={"top_k": gain("top_k", -0.2, -0.3, -0.1)})
    assert worse.verdict.endswith("before hardening, the attack is weaker than noise.")
    assert replace(worse, doubts=((), doubts[1])).verdict.startswith("The maps hold less well")


def test_the_time_is_said() -> None:
    timed = replace(BETTER, seconds={"audit before": 30.2, "training": 150.0, "audit after": 31.0, "all": 240.0})
    assert timed.took == "It took 4.0 minutes: audit before 30 s, training 2.5 minutes, audit after 31 s."
    assert timed.took in timed.text()
    assert timed.plain()["seconds"]["all"] == 240.0
    assert BETTER.took == ""
    assert "It took" not in BETTER.text()


def test_nothing_to_compare() -> None:
    assert "The network was not changed" in replace(BETTER, unchanged=True).verdict
    assert replace(BETTER, gains={}).verdict.startswith("There is no comparison")
    assert "paired gains" not in replace(BETTER, gains={}).text()
    unknown = replace(BETTER, natural=(None, None), kept=(None, 0.5))
    assert unknown.figures[0][1:3] == ("-", "50.0 %")


def test_an_unchanged_accuracy_is_called_that() -> None:
    assert replace(BETTER, natural=(0.98, 0.9803)).verdict.endswith(", and the accuracy stays at 98.0 %.")
