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


def test_nothing_to_compare() -> None:
    assert "The network was not changed" in replace(BETTER, unchanged=True).verdict
    assert replace(BETTER, gains={}).verdict.startswith("There is no comparison")
    assert "paired gains" not in replace(BETTER, gains={}).text()
    unknown = replace(BETTER, natural=(None, None), kept=(None, 0.5))
    assert unknown.figures[0][1:3] == ("-", "50.0 %")


def test_an_unchanged_accuracy_is_called_that() -> None:
    assert replace(BETTER, natural=(0.98, 0.9803)).verdict.endswith(", and the accuracy stays at 98.0 %.")
