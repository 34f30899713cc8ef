"""Which of several maps holds best, from rows written by hand."""

from dataclasses import replace

import numpy as np
import pytest
from tests.runs.material import INFO, example_row

from holdfast.runs import ExampleRow, RunInfo, judge, summarise
from holdfast.runs.map_comparison import compare_maps
from holdfast.runs.verdict import MIN_ATTACKED

N = 24


def rows(attack: str, kept: dict[int, float | None]) -> list[ExampleRow]:
    """Rows of one attack; None is a misclassified image."""
    return [
        example_row(
            attack=attack,
            id=i,
            label=1,
            prediction=1 if share is not None else 0,
            outcome="misclassified" if share is None else "attacked",
            top_k=share,
            kendall=share,
        )
        for i, share in kept.items()
    ]


def three(ig: float = 0.5, gradient: float = 0.25, gradcam: float = 0.75, *, noise: float = 0.9, n: int = N) -> dict:
    """Image i keeps the given share, plus 0.01 if i is odd; image n is misclassified."""
    known = {"strongest": ig, "strongest:gradient": gradient, "strongest:gradcam": gradcam}
    known |= {"random": noise, "random:gradient": noise, "random:gradcam": noise}
    return {name: rows(name, {i: s + 0.01 * (i % 2) for i in range(n)} | {n: None}) for name, s in known.items()}


def test_the_best_map_and_its_distance() -> None:
    found = compare_maps(three(), ("ig", "gradient", "gradcam"))
    assert (found["best"], found["attack"], found["n"]) == ("gradcam", "strongest:gradcam", N)
    assert list(found["found"]) == ["gradcam", "ig", "gradient"]
    assert found["found"]["gradcam"]["kept"] == pytest.approx(0.755)
    assert "behind_best" not in found["found"]["gradcam"]
    assert found["found"]["ig"]["behind_best"]["mean"] == pytest.approx(0.25)
    assert found["found"]["gradient"]["behind_best"]["mean_ci95"] == pytest.approx((0.5, 0.5))
    assert found["found"]["ig"]["gain_over_noise"]["mean"] == pytest.approx(0.4)
    assert found["found"]["ig"]["under_noise"] == pytest.approx(0.905)
    assert found["sentence"] == (
        "Of 3 explanations, Grad-CAM holds best: under the strongest attack, its maps keep 76 % of their most "
        "important pixels on average, 25.0 points [25.0, 25.0] more than those of the next, integrated gradients, on "
        "the same 24 images."
    )


def test_only_images_that_all_maps_have() -> None:
    found = three()
    found["strongest:gradcam"] = [row for row in found["strongest:gradcam"] if row.id >= 4]
    found["strongest"] = [row for row in found["strongest"] if row.id < 22]
    compared = compare_maps(found, ("ig", "gradient", "gradcam"))
    assert compared["n"] == 18
    assert compared["found"]["gradient"]["behind_best"]["n"] == 18
    assert compared["sentence"] == (
        "This audit cannot say which explanation holds best: only 18 images were attacked on all maps, and at least 20 "
        "are needed."
    )


def test_images_with_a_constant_map_are_left_out() -> None:
    found = three(gradcam=0.25)
    found["strongest:gradcam"] = [
        replace(row, outcome="nan_map", scores={}) if row.id in (2, 3) else row for row in found["strongest:gradcam"]
    ]
    compared = compare_maps(found, ("ig", "gradient", "gradcam"))
    assert compared["n"] == N - 2
    assert compared["undefined"] == {"gradcam": 2}
    assert compared["found"]["gradcam"]["kept"] == pytest.approx(0.255)
    assert compared["sentence"].endswith("Images left out: 2 on which Grad-CAM is constant.")


def test_a_difference_that_may_be_chance_names_no_best() -> None:
    found = three(ig=0.5, gradient=0.1)
    wide = np.random.default_rng(0).normal(0.52, 0.2, N)
    found["strongest:gradcam"] = rows("strongest:gradcam", dict(enumerate(wide.tolist())))
    said = compare_maps(found, ("ig", "gradient", "gradcam"))["sentence"]
    assert said.startswith("Of 3 explanations, none holds measurably best: under the strongest attack, ")
    assert "gradient maps" not in said


def test_an_attack_no_stronger_than_noise_is_said() -> None:
    said = compare_maps(three(noise=0.75), ("ig", "gradient", "gradcam"))["sentence"]
    assert said.endswith(
        "The attack on Grad-CAM is not measurably stronger than noise, so a longer search may change the order."
    )


@pytest.mark.parametrize("n", [0, 1, MIN_ATTACKED - 1])
def test_few_images(n: int) -> None:
    said = compare_maps(three(n=n), ("ig", "gradient", "gradcam"))["sentence"]
    assert said.startswith("This audit cannot say which explanation holds best: ")


def test_one_map_is_not_compared() -> None:
    assert compare_maps({"strongest": rows("strongest", {0: 0.5})}, ("ig",)) == {}
    assert "maps" not in summarise(rows("strongest", {0: 0.5}), INFO)


def test_the_verdict_is_about_the_map_that_holds_best() -> None:
    every = [row for group in three(gradcam=0.85, noise=0.95).values() for row in group]
    about = {"k": 12, "labels": "given"}
    info = RunInfo(dataset="d", method="m", preset="", seed=0, audit=about, maps=("ig", "gradient", "gradcam"))
    summary = summarise(every, info)
    assert summary["maps"]["best"] == "gradcam"
    assert summary["attacks"]["strongest:gradient"]["gain_over_noise"]["mean"] == pytest.approx(0.7)
    verdict = judge(summary)
    assert (verdict.answer, verdict.attack) == ("robust", "strongest:gradcam")
    assert verdict.sentence.startswith("The Grad-CAM maps are robust to these attacks: under the strongest attack")
