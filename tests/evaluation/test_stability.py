"""Max-sensitivity, RIS and ROS: by hand, on closed forms, and as lower bounds. tests/parity has captum and Quantus."""

import math

import pytest
import torch
from tests.nets import LinearSoftmax, Quadratic
from tests.trained import digits, trained

import holdfast as hf
from holdfast.errors import InputError
from holdfast.evaluation.stability import (
    SMALLEST,
    random_stability,
    relative_input_change,
    relative_output_change,
    sensitivity,
)
from holdfast.rng import combine


def test_quotients_by_hand() -> None:
    before, after = torch.tensor([[2.0, -4.0]]), torch.tensor([[3.0, -1.0]])
    assert sensitivity(before, after).item() == pytest.approx(math.sqrt(1 + 9) / math.sqrt(4 + 16))
    change = math.hypot(1 / 2, 3 / 4)  # entry by entry
    x, near = torch.tensor([[0.5, 0.2]]), torch.tensor([[0.6, 0.1]])
    assert relative_input_change(before, after, x, near).item() == pytest.approx(change / math.hypot(0.2, 0.5))
    logits, moved = torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    assert relative_output_change(before, after, logits, moved).item() == pytest.approx(change / 2)


def test_zero_counts_as_the_smallest_number() -> None:
    zero, one = torch.zeros(1, 2), torch.ones(1, 2)
    assert sensitivity(zero, one).item() == pytest.approx(math.sqrt(2))  # divided by 1, as captum does
    half = torch.full((1, 2), 0.5)
    assert relative_input_change(zero, one, half, one).item() == pytest.approx(1 / SMALLEST)
    assert relative_input_change(one, one + 1, zero, one).item() == pytest.approx(SMALLEST)
    assert relative_output_change(one, one + 1, one, one).item() == pytest.approx(math.sqrt(2) / SMALLEST)


def test_a_linear_network_has_a_constant_gradient() -> None:
    net, x, y = LinearSoftmax(4, 3).double(), torch.rand(3, 1, 2, 2).double(), torch.tensor([2, 0, 1])
    found = random_stability(net, x, y, hf.Gradient(), keys=torch.arange(3), ball=hf.Linf(0.1))
    assert found.max_sensitivity.tolist() == [0, 0, 0]
    assert found.ris.tolist() == found.ros.tolist() == [0, 0, 0]


def test_input_times_gradient_of_a_linear_network() -> None:
    """A = w x, so (A - A') / A = (x - x') / x and RIS is 1; the sensitivity is |w (x' - x)| / |w x|."""
    net, x = LinearSoftmax(4, 3).double(), torch.rand(3, 1, 2, 2).double() * 0.5 + 0.25
    y, keys, ball = torch.tensor([2, 0, 1]), torch.arange(3), hf.Linf(0.01)
    found = random_stability(net, x, y, hf.InputXGradient(), keys=keys, ball=ball, samples=4)
    torch.testing.assert_close(found.ris, torch.ones(3, dtype=torch.float64))
    w = net.layer.weight[y].reshape(x.shape)
    near = [ball.sample(combine(keys, number), x) for number in range(4)]
    sizes = [(w * (n - x)).flatten(1).norm(dim=1) / (w * x).flatten(1).norm(dim=1) for n in near]
    torch.testing.assert_close(found.max_sensitivity, torch.stack(sizes).amax(0))


def test_only_samples_with_the_same_prediction_count() -> None:
    """On the border between two classes some samples change the prediction; far beyond it, none keeps it."""
    net = Quadratic(torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double())
    x, y = torch.tensor([[[[0.50, 0.499]]], [[[0.9, 0.2]]]]).double(), torch.tensor([0, 0])
    keys, ball = hf.make_keys(0, torch.arange(2)), hf.Linf(0.1)
    ig, expected = hf.IntegratedGradients(steps=3), torch.full((2,), -math.inf).double()
    kept = torch.zeros(2, dtype=torch.int64)
    for number in range(8):
        near = ball.sample(combine(keys, number), x)
        same = net(near).argmax(1) == net(x).argmax(1)
        kept += same
        value = relative_input_change(ig(net, x, y), ig(net, near, y), x, near)
        expected = torch.where(same & (value > expected), value, expected)
    assert 0 < kept[0] < 8
    assert kept[1] == 8
    torch.testing.assert_close(random_stability(net, x, y, ig, keys=keys, ball=ball, samples=8).ris, expected)
    flipping = _Flipping()
    found = random_stability(flipping, x, y, hf.Gradient(), keys=keys, ball=ball, samples=3)
    assert found.ris.isnan().all()
    assert found.ros.isnan().all()


class _Flipping(torch.nn.Module):
    """Predicts class 0 at the first call after each change of the image, and class 1 at every other."""

    def __init__(self) -> None:
        super().__init__()
        self.first: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first is None:
            self.first = x.detach().clone()
        evidence = 5 - 1e4 * (x - self.first).abs().flatten(1).amax(1)
        return torch.stack([evidence, -evidence], dim=1)


def test_more_samples_find_more_and_an_attack_finds_more_than_noise() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:24] for part in digits("test"))
    keys, ig = hf.make_keys(0, torch.arange(24)), hf.IntegratedGradients(steps=5)
    few, many = (
        random_stability(model, x, y, ig, keys=keys, ball=hf.Linf(0.1), samples=n).max_sensitivity for n in (2, 6)
    )
    assert (many >= few).all()
    attack = hf.recipes.ifia(eps=0.1, step_size=0.02, steps=15, k=12, ig_steps=5, kind="cosine")
    moved = sensitivity(ig(model, x, y), ig(model, attack(model, x, y, keys=keys), y))
    assert moved.median() > many.median()  # the random maximum is a lower bound


def test_batches_do_not_matter() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:6] for part in digits("test"))
    keys = hf.make_keys(3, torch.arange(6))
    whole = random_stability(model, x, y, hf.Gradient(), keys=keys, samples=3)
    part = random_stability(model, x[4:], y[4:], hf.Gradient(), keys=keys[4:], samples=3)
    for name in ("max_sensitivity", "ris", "ros"):
        torch.testing.assert_close(getattr(whole, name)[4:], getattr(part, name), rtol=1e-4, atol=1e-6)


def test_samples_must_be_positive() -> None:
    x = torch.rand(1, 1, 2, 2)
    with pytest.raises(InputError, match="samples >= 1"):
        random_stability(LinearSoftmax(), x, torch.tensor([0]), hf.Gradient(), keys=torch.tensor([0]), samples=0)
