"""The explained scalars, by hand."""

import math

import pytest
import torch

import holdfast as hf

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
