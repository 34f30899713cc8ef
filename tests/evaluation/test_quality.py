"""Quality of maps: by hand on a network that reads one pixel, and on trained networks."""

import pytest
import torch
from tests.trained import digits, trained
from torch import nn

import holdfast as hf
from holdfast.evaluation.quality import map_quality, probability_curve, shuffled_weights


class OnePixel(nn.Module):
    """Probability of class 0 is near 1 while the first pixel is bright, near 0 when it is black."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        evidence = 40 * (x.flatten(1)[:, 0] - 0.5)
        return torch.stack([evidence, -evidence], dim=1)


X, Y = torch.ones(1, 1, 2, 2), torch.tensor([0])


def test_curves_by_hand() -> None:
    right, wrong = torch.tensor([[[9.0, 1.0], [1.0, 1.0]]]), torch.tensor([[[0.0, 2.0], [2.0, 2.0]]])
    # five points: nothing, 1, 2, 3 and all 4 pixels; the first pixel is put in first, or last
    assert probability_curve(OnePixel(), X, Y, right, insert=True, points=5).item() == pytest.approx(
        (0.5 + 1 + 1 + 1) / 4
    )
    assert probability_curve(OnePixel(), X, Y, wrong, insert=True, points=5).item() == pytest.approx(
        (0 + 0 + 0 + 0.5) / 4
    )
    assert probability_curve(OnePixel(), X, Y, right, insert=False, points=5).item() == pytest.approx(0.5 / 4)
    assert probability_curve(OnePixel(), X, Y, wrong, insert=False, points=5).item() == pytest.approx(
        (1 + 1 + 1 + 0.5) / 4
    )


def test_trained_network_beats_a_shuffled_one() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:40] for part in digits("test"))
    ig = hf.IntegratedGradients(steps=20)
    quality = map_quality(model, x, y, ig, natural=model)
    assert quality.insertion.mean() > quality.deletion.mean() + 0.2
    assert (quality.agreement == 1).all()
    assert quality.randomised.nanmean() < 0.97  # black pixels have no attribution under any weights, so far from 0
    assert quality.completeness is not None
    assert quality.completeness.median() < 0.2
    assert map_quality(model, x, y, hf.Gradient()).completeness is None


def test_shuffling_keeps_the_numbers_and_loses_the_order() -> None:
    model = trained("digits-cnn", 8)
    other = shuffled_weights(model, seed=0)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.flatten().sort().values, theirs.flatten().sort().values)
    assert not torch.equal(next(model.parameters()), next(other.parameters()))
    again = shuffled_weights(model, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), again.parameters(), strict=True))
