"""Quality of maps: by hand on a network that reads one pixel, and on trained networks."""

import pytest
import torch
from tests.trained import digits, trained
from torch import nn

import holdfast as hf
from holdfast.evaluation.controls import shuffled_weights
from holdfast.evaluation.curves import probability_curve
from holdfast.evaluation.quality import map_quality
from holdfast.runs.quality import QUALITY


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
    assert (quality.natural_spearman == 1).all()
    assert quality.road_morf.mean() < quality.road_lerf.mean()
    assert quality.adv_insertion is quality.adv_deletion is quality.attacked_sensitivity is None
    assert quality.randomised.nanmean() < 0.97  # black pixels have no attribution under any weights, so far from 0
    assert quality.completeness is not None
    assert quality.completeness.median() < 0.2
    assert map_quality(model, x, y, hf.Gradient()).completeness is None


def test_the_natural_network_is_compared_on_a_map_of_its_own() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:4] for part in digits("test"))
    other, gradient = shuffled_weights(model, seed=1), hf.Gradient()
    quality = map_quality(
        model, x, y, hf.IntegratedGradients(steps=3), natural=other, natural_map=gradient, ball=hf.Linf(0.1), samples=1
    )
    maps = [hf.saliency_map(gradient(net, x, y)) for net in (model, other)]
    torch.testing.assert_close(quality.natural_spearman, hf.metrics.spearman_rho(*maps))


def test_adversarial_curves_by_hand() -> None:
    """The attacked map names the wrong pixel, so inserting its top pixel first brings nothing."""
    model, x, y = OnePixel(), torch.tensor([[[[0.9, 0.8], [0.7, 0.6]]]]), torch.tensor([0])
    moved = torch.where(x == 0.9, 0.55, 1.0)
    attack = hf.attacks.ProposalAttack(
        propose=lambda model, x, y, *, keys: moved, attribution=InputItself(), eval_k=1, ball=hf.Linf(0.5)
    )
    quality = map_quality(model, x, y, InputItself(), attack=attack, samples=2)
    assert quality.insertion.item() == pytest.approx(probability_curve(model, x, y, x[:, 0], insert=True).item())
    expected = probability_curve(model, x, y, moved[:, 0], insert=True).item()
    assert quality.adv_insertion is not None
    assert quality.adv_insertion.item() == pytest.approx(expected)
    assert quality.adv_insertion < quality.insertion - 0.5
    assert quality.insertion_change is not None
    assert quality.insertion_change.item() == pytest.approx(expected - quality.insertion.item())
    assert quality.adv_deletion is not None
    assert quality.adv_deletion > quality.deletion + 0.5
    assert quality.attacked_sensitivity is not None
    change = (moved - x).norm() / x.norm()
    assert quality.attacked_sensitivity.item() == pytest.approx(change.item())
    assert quality.image_spearman.item() == 1.0


class InputItself:
    """The image as its own attribution."""

    def __call__(self, model, x: torch.Tensor, y: torch.Tensor, *, create_graph: bool = False) -> torch.Tensor:
        return x


def test_every_measure_is_in_its_range_and_misclassified_images_have_no_attacked_map() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:12] for part in digits("test"))
    y = y.clone()
    y[0] = (model(x[:1]).argmax(1) + 1) % 10
    attack = hf.recipes.ifia(eps=0.1, step_size=0.03, steps=4, k=12, ig_steps=5)
    found = map_quality(
        model, x, y, hf.IntegratedGradients(steps=5), attack=attack, natural=model, samples=2
    ).measured()
    assert list(found) == list(QUALITY)
    for name, values in found.items():
        low, high = QUALITY[name].range
        assert values.dtype == torch.float64
        assert values.shape == (12,)
        assert ((values >= low) & (values <= high) | values.isnan()).all(), name
        assert values[1:].isfinite().all(), name
        of_attack = name.startswith("adv_") or name.endswith("_change") or name == "attacked_sensitivity"
        assert bool(values[0].isnan()) == of_attack, name
    assert (found["attacked_sensitivity"][1:] > 0).sum() > 6  # a failed attack leaves the map as it is


def test_shuffling_keeps_the_numbers_and_loses_the_order() -> None:
    model = trained("digits-cnn", 8)
    other = shuffled_weights(model, seed=0)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.flatten().sort().values, theirs.flatten().sort().values)
    assert not torch.equal(next(model.parameters()), next(other.parameters()))
    again = shuffled_weights(model, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), again.parameters(), strict=True))
