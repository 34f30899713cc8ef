"""The verdict of an audit, from summaries written by hand."""

from typing import Any

import pytest
from tests.runs.material import INFO, example_row

from holdfast.runs import RunInfo, add_verdict, judge, summarise
from holdfast.runs.verdict import (
    FRAGILE,
    MAX_FAILED,
    MIN_ATTACKED,
    MIN_SKILL,
    NEAR_CHANCE,
    ROBUST,
    decisive,
    doubts_of_gain,
)

TEN = [str(label) for label in range(10)]
DONE = {"audit": {"k": 12, "labels": "given"}}


def attack(
    kept: float | None, n: int = 64, failed: float = 0.0, gain: tuple[float, float] | None = None
) -> dict[str, Any]:
    lost = round(failed * n)
    found: dict[str, Any] = {
        "top_k": {"median": kept, "n": n},
        "failed_share": failed,
        "outcomes": {"attacked": n - lost, "label_lost": lost, "unmoved": 0},
        "warnings": [],
    }
    if gain is not None:
        found["gain_over_noise"] = {"mean": gain[0], "mean_ci95": (gain[1], 2 * gain[0] - gain[1]), "n": n}
    return found


def summary(
    kept: float | None = 0.9, noise: float | None = 0.95, accuracy: float = 0.9, classes: int = 10, **changes: Any
) -> dict[str, Any]:
    known = {"gain": (0.05, 0.02)} | changes
    attacks = {"ifia-topk": attack(0.99), "strongest": attack(kept, **known)}
    if noise is not None:
        attacks["random"] = attack(noise)
    return {"attacks": attacks, "natural_accuracy": accuracy, "class_names": TEN[:classes], **DONE}


@pytest.mark.parametrize(
    ("kept", "answer"),
    [(1.0, "robust"), (ROBUST, "robust"), (0.79, "partly robust"), (FRAGILE, "partly robust"), (0.49, "not robust")],
)
def test_thresholds_on_the_median(kept: float, answer: str) -> None:
    verdict = judge(summary(kept, noise=1.0))
    assert verdict.answer == answer
    assert verdict.attack == "strongest"
    assert not verdict.reasons
    word = "robust to these attacks" if answer == "robust" else answer
    assert verdict.sentence == (
        f"The maps are {word}: under the strongest attack that keeps the prediction, the median image keeps "
        f"{100 * kept:.0f} % of its 12 most important pixels."
    )


def test_noise_on_the_map_of_the_attack_is_preferred() -> None:
    found = summary(0.9, noise=0.95)
    assert judge(found).answer == "robust"
    found["attacks"]["random-centred"] = attack(0.3)
    verdict = judge(found)
    assert (verdict.answer, verdict.attack) == ("not robust", "strongest")
    assert "under random noise of this size, the median image keeps 30 %" in verdict.sentence
    found["attacks"]["ifia-topk"] = found["attacks"].pop("strongest")  # its map is that of the true logit
    assert judge(found).answer == "robust"
    assert decisive(["random-centred", "random", "ifia-topk"]) == "ifia-topk"


def test_the_sentence_names_the_attack_that_was_run() -> None:
    for name, words in (
        ("ifia-topk", "the reference attack (ifia-topk), which keeps the prediction, the median"),
        ("ifia-ensemble", "the ensemble of attacks (ifia-ensemble), which keeps the prediction, the median"),
        ("ifia-cosine", "the attack ifia-cosine, which keeps the prediction, the median"),
    ):
        known = {"attacks": {name: attack(0.4), "random": attack(0.9)}, "natural_accuracy": 0.9, "class_names": TEN}
        sentence = judge(known | DONE).sentence
        assert sentence.startswith(f"The maps are not robust: under {words}")
        assert "strongest" not in sentence


def test_few_images() -> None:
    assert judge(summary(0.3, n=MIN_ATTACKED)).answer == "not robust"
    verdict = judge(summary(0.3, n=MIN_ATTACKED - 1))
    assert verdict.answer == "cannot say"
    assert verdict.reasons == {"few images": "only 19 images were attacked, and at least 20 are needed"}
    assert verdict.sentence == (
        "This audit cannot say whether the maps are robust: only 19 images were attacked, and at least 20 are needed."
    )
    assert "only 1 image was attacked" in judge(summary(0.3, n=1)).sentence
    assert judge(summary(None, noise=None, n=0)).reasons == {"few images": "no image could be attacked"}
    assert judge({"attacks": {}, **DONE}).answer == "cannot say"


@pytest.mark.parametrize(("classes", "limit"), [(10, 0.19), (2, 0.55)])
def test_accuracy_near_chance(classes: int, limit: float) -> None:
    """Chance + NEAR_CHANCE (1 - chance): 0.1 + 0.09 for ten classes, 0.5 + 0.05 for two."""
    assert NEAR_CHANCE == 0.1
    assert judge(summary(0.3, accuracy=limit + 0.001, classes=classes)).answer == "not robust"
    verdict = judge(summary(0.3, accuracy=limit - 0.001, classes=classes))
    assert verdict.answer == "cannot say"
    assert f"near chance for {classes} classes" in verdict.reasons["near chance"]


@pytest.mark.parametrize(("classes", "limit"), [(10, 0.325), (2, 0.625)])
@pytest.mark.parametrize(("kept", "answer"), [(0.9, "robust"), (0.6, "partly robust"), (0.3, "not robust")])
def test_little_better_than_chance_is_not_called_robust(classes: int, limit: float, kept: float, answer: str) -> None:
    """Chance + MIN_SKILL (1 - chance): 0.1 + 0.225 for ten classes, 0.5 + 0.125 for two."""
    assert MIN_SKILL == 0.25
    assert judge(summary(kept, accuracy=limit + 0.001, classes=classes)).answer == answer
    below = judge(summary(kept, accuracy=limit - 0.001, classes=classes))
    assert below.answer == ("not robust" if answer == "not robust" else "cannot say")


def test_a_quarter_right_on_ten_classes() -> None:
    verdict = judge(summary(0.95, accuracy=0.25))
    assert verdict.answer == "cannot say"
    assert verdict.reasons == {"near chance": "accuracy is 25 %, little better than chance for 10 classes"}
    assert judge(summary(0.3, accuracy=0.25)).answer == "not robust"


def test_doubts_of_a_gain_count_for_broken_maps_too() -> None:
    found = summary(0.3, failed=0.5, accuracy=0.25, gain=(-0.1, -0.2))
    assert judge(found).answer == "not robust"
    assert list(doubts_of_gain(found)) == ["near chance", "failed attacks", "weak attack"]
    assert doubts_of_gain(summary(0.3)) == {}


def test_one_class_has_no_chance_level() -> None:
    assert judge(summary(0.3, accuracy=0.1, classes=1)).answer == "not robust"


def test_failed_attacks_put_robust_maps_in_doubt_and_not_broken_ones() -> None:
    assert judge(summary(0.9, failed=MAX_FAILED)).answer == "robust"
    verdict = judge(summary(0.9, failed=0.5))
    assert verdict.answer == "cannot say"
    assert verdict.reasons == {"failed attacks": "50 % of the attacks failed (32 lost the label), more than 25 %"}
    assert judge(summary(0.3, failed=0.5)).answer == "not robust"


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        ((-0.149, -0.2), "weaker than noise, which removes 14.9 points more"),
        ((0.01, -0.01), "it removes 1.0 points more, and the interval includes zero"),
        ((0.0, -0.01), "both remove as much"),
    ],
)
def test_an_attack_no_stronger_than_noise(gain: tuple[float, float], words: str) -> None:
    verdict = judge(summary(0.9, gain=gain))
    assert verdict.answer == "cannot say"
    assert words in verdict.reasons["weak attack"]
    assert judge(summary(0.3, gain=gain)).answer == "not robust"


def test_noise_alone_can_show_that_maps_are_not_robust() -> None:
    verdict = judge(summary(0.9, noise=0.4, gain=(-0.5, -0.6)))
    assert verdict.answer == "not robust"
    assert "under random noise of this size, the median image keeps 40 %" in verdict.sentence


def test_noise_alone_cannot_show_that_they_are() -> None:
    only_noise = {"attacks": {"random": attack(0.9)}, "natural_accuracy": 0.9, "class_names": TEN, **DONE}
    assert judge(only_noise).reasons == {"no attack": "only random noise was tried"}
    only_noise["attacks"]["random"] = attack(0.3)
    assert judge(only_noise).answer == "not robust"
    assert "random noise" in judge(only_noise).sentence


def test_all_reasons_are_given() -> None:
    verdict = judge(summary(0.9, accuracy=0.1, n=4, failed=0.5, gain=(-0.1, -0.2)))
    assert list(verdict.reasons) == ["few images", "near chance", "failed attacks", "weak attack"]


def test_the_attack_that_decides() -> None:
    assert decisive(["ifia-topk", "strongest-true-logit", "strongest", "ifia-ensemble", "random"]) == "strongest"
    assert decisive(["ifia-topk", "ifia-ensemble", "random"]) == "ifia-ensemble"
    assert decisive(["random", "ifia-cosine", "ifia-topk"]) == "ifia-cosine"
    assert decisive(["random"]) == "random"
    assert decisive([]) == ""


def made_rows(kept: float, noise: float, n: int = 24) -> list[Any]:
    known = {"label": 1, "prediction": 1, "outcome": "attacked"}
    return [
        example_row(attack=name, id=i, top_k=share, kendall=share, **known)
        for name, share in (("ifia-topk", kept), ("random", noise))
        for i in range(n)
    ]


def test_rows_become_a_verdict_in_the_summary() -> None:
    info = RunInfo(dataset="images", method="net", preset="audit", seed=0, class_names=("a", "b"), **DONE)
    found = add_verdict(summarise(made_rows(0.25, 0.75), info))
    assert found["attacks"]["ifia-topk"]["gain_over_noise"] == {"mean": 0.5, "mean_ci95": (0.5, 0.5), "n": 24}
    plain = summarise(made_rows(0.25, 0.75), INFO)["attacks"]  # noise may have been measured on another map there
    assert "gain_over_noise" not in plain["ifia-topk"]
    assert "gain_over_noise" not in found["attacks"]["random"]
    assert found["audit"]["verdict"]["answer"] == "not robust"
    assert found["audit"]["k"] == 12
    assert found["audit"]["notes"] == ["ifia-topk, random: only 24 examples were attacked: the intervals are rough."]
    assert "audit" not in add_verdict(summarise(made_rows(0.25, 0.75), INFO))


def test_notes_about_labels() -> None:
    low = {"attacks": {}, "natural_accuracy": 0.3, "class_names": ["cat", "dog"]}
    given = add_verdict(low | {"audit": {"labels": "given"}})["audit"]["notes"]
    assert "Only 30 % of the predictions equal the labels" in given[0]
    assert "cat, dog" in given[0]
    predicted = add_verdict(low | {"audit": {"labels": "predicted"}})["audit"]["notes"]
    assert predicted == ["The labels are the network's own predictions, so this audit says nothing about its accuracy."]
