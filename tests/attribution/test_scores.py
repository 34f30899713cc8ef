"""The explained scalars, by hand."""

import math

import pytest
import torch

import holdfast as hf
from holdfast.attribution import MAPS, SCORES, make_map
from holdfast.config import make_config
from holdfast.experiment.measure import MeasureOptions, protocol_of

LOGITS = torch.tensor([[1.0, 2.0, 0.0], [5.0, 1.0, 3.0]])
Y = torch.tensor([1, 0])


def softmax(row: list[float], index: int) -> float:
    return math.exp(row[index]) / sum(math.exp(v) for v in row)


def test_scores_by_hand() -> None:
    p = [softmax([1, 2, 0], 1), softmax([5, 1, 3], 0)]
    assert hf.true_logit(LOGITS, Y).tolist() == [2.0, 5.0]
    assert hf.true_probability(LOGITS, Y).tolist() == pytest.approx(p)
    assert hf.true_loss(LOGITS, Y).tolist() == pytest.approx([-math.log(v) for v in p])
    assert hf.ClassLogit(2)(LOGITS, Y).tolist() == [0.0, 3.0]
    assert hf.ClassProbability(2)(LOGITS, Y).tolist() == pytest.approx([softmax([1, 2, 0], 2), softmax([5, 1, 3], 2)])


def test_most_confusing_class_and_margin() -> None:
    assert hf.most_confusing(LOGITS, Y).tolist() == [0, 2]
    assert hf.most_confusing(LOGITS, torch.tensor([0, 1])).tolist() == [1, 0]
    assert hf.margin(LOGITS, Y).tolist() == [-1.0, -2.0]


def test_loss_stays_finite_for_huge_logits() -> None:
    huge = torch.tensor([[1e4, -1e4]])
    assert hf.true_loss(huge, torch.tensor([1])).item() == pytest.approx(2e4)


VALUES = {
    "true-logit": [2.0, 5.0],
    "centred-logit": [1.0, 2.0],
    "true-probability": [softmax([1, 2, 0], 1), softmax([5, 1, 3], 0)],
    "true-loss": [-math.log(softmax([1, 2, 0], 1)), -math.log(softmax([5, 1, 3], 0))],
    "margin": [-1.0, -2.0],
}
"""Name of a score -> its values at LOGITS and Y, by hand."""


def test_every_name_is_its_score() -> None:
    assert set(SCORES) == set(VALUES)
    for name, score in SCORES.items():
        assert score(LOGITS, Y).tolist() == pytest.approx(VALUES[name])


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", MAPS)
def test_every_map_takes_every_score_by_name(name: str, score: str) -> None:
    by_name, as_offered = make_map(name, {"score": score}), make_map(name, score=score)
    assert by_name == as_offered == MAPS[name](score=SCORES[score])
    assert make_map(name, {"score": "margin"}, score=score) == MAPS[name](score=hf.margin)  # options come first


def test_a_score_by_name_changes_the_map() -> None:
    weights = torch.tensor([[1.0, 2.0], [0.0, -1.0], [5.0, 2.0]])
    found = make_map("gradient", {"score": "centred-logit"})(
        lambda x: x.flatten(1) @ weights.T, torch.rand(1, 1, 1, 2), torch.tensor([0])
    )
    assert found.flatten().tolist() == pytest.approx([-1.0, 1.0])  # w_0 minus the mean (2, 1) of the rows


def test_a_function_or_an_object_is_a_score_too() -> None:
    assert make_map("gradient", {"score": hf.ClassLogit(2)}) == hf.Gradient(score=hf.ClassLogit(2))


@pytest.mark.parametrize("wrong", ["true_logit", "", 3, ["margin"]])
def test_an_unknown_score_is_one_sentence(wrong: object) -> None:
    with pytest.raises(hf.InputError, match=r"^expected score to be one of true-logit, centred-logit, .*, got "):
        make_map("ig", {"score": wrong})


def test_a_config_names_the_score() -> None:
    config = make_config("digits/natural", overrides=[("evaluate.map_options.score", "centred-logit")])
    for attack in protocol_of(config, MeasureOptions()).attacks.values():
        assert attack.attribution.score is hf.centred_logit  # type: ignore[attr-defined]
