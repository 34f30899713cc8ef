"""The losses of the map, by hand, on a linear network whose maps are known."""

import math

import pytest
import torch
from tests.nets import LinearSoftmax

import holdfast as hf
from holdfast.losses import (
    CenterShift,
    CrossEntropy,
    FlattenedCosine,
    KendallDrop,
    MapCosine,
    Margin,
    NoDirection,
    SoftTopK,
    TargetMass,
    TopKMass,
)

# logit_0 = x_1 + 2 x_2 + 3 x_3 + 4 x_4, so |IG| = w x and the map is 4 w x / sum(w x)
W = torch.tensor([1.0, 2.0, 3.0, 4.0])
X, X_ADV = torch.tensor([1.0, 0.5, 0.5, 0.25]), torch.tensor([0.5, 1.0, 0.5, 0.25])
CLEAN, MOVED = W * X, W * X_ADV  # (1, 1, 1.5, 1) and (.5, 2, 1.5, 1), sums 4.5 and 5
Y = torch.tensor([0])
GRADIENT = hf.InputXGradient()


@pytest.fixture
def model() -> LinearSoftmax:
    net = LinearSoftmax(4, 2)
    with torch.no_grad():
        net.layer.weight[:] = torch.stack([W, -W])
        net.layer.bias[:] = 0
    return net


def pair() -> hf.Pair:
    return hf.Pair(X.reshape(1, 1, 2, 2), X_ADV.reshape(1, 1, 2, 2), Y)


def value(loss: hf.losses.Loss, model: LinearSoftmax) -> float:
    return loss(model, pair()).item()


def test_top_k_mass(model: LinearSoftmax) -> None:
    # top 2 of the clean map: pixel 2 (1.5) and, first among equals, pixel 0
    assert value(TopKMass(k=2, attribution=GRADIENT), model) == pytest.approx(-4 * (0.5 + 1.5) / 5)


def test_center_shift(model: LinearSoftmax) -> None:
    # clean centre (row 2.5/4.5, column 2/4.5), cut to (0, 0); moved centre (2.5/5, 3/5)
    assert value(CenterShift(attribution=GRADIENT), model) == pytest.approx(0.5**2 + 0.6**2)


def test_target_mass(model: LinearSoftmax) -> None:
    target = torch.tensor([[0.0, 9.0], [0.0, 1.0]])
    assert value(TargetMass(k=1, target=target, attribution=GRADIENT), model) == pytest.approx(4 * 2 / 5)


def test_cosine(model: LinearSoftmax) -> None:
    dot, norms = float(CLEAN @ MOVED), float(CLEAN.norm() * MOVED.norm())
    assert value(MapCosine(attribution=GRADIENT), model) == pytest.approx(1 - dot / norms, abs=1e-6)


def test_flattened_cosine(model: LinearSoftmax) -> None:
    # maps scaled to a mean of 1, raised by a hundredth, square roots
    a, b = ((4 * m / m.sum() + 0.01).sqrt() for m in (CLEAN, MOVED))
    loss = FlattenedCosine(attribution=GRADIENT, power=0.5)
    assert value(loss, model) == pytest.approx(1 - float(a @ b / (a.norm() * b.norm())), abs=1e-6)
    plain = value(MapCosine(attribution=GRADIENT), model)
    mixed = FlattenedCosine(attribution=GRADIENT, power=0.5, peak=0.25)
    assert value(mixed, model) == pytest.approx(0.75 * value(loss, model) + 0.25 * plain, abs=1e-6)
    with pytest.raises(hf.InputError, match="power"):
        FlattenedCosine(attribution=GRADIENT, power=0.0)
    with pytest.raises(hf.InputError, match="peak"):
        FlattenedCosine(attribution=GRADIENT, peak=2.0)


def test_soft_top_k(model: LinearSoftmax) -> None:
    shown = 4 * MOVED / 5  # (.4, 1.6, 1.2, .8); second largest 1.2; spread with mean 1
    width = 0.5 * math.sqrt((0.36 + 0.36 + 0.04 + 0.04) / 4)
    left = [1 / (1 + math.exp(-(1.2 - float(shown[i])) / width)) for i in (0, 2)]
    assert value(SoftTopK(k=2, attribution=GRADIENT), model) == pytest.approx(sum(left) / 2, rel=1e-5)


def test_kendall_drop(model: LinearSoftmax) -> None:
    # clean (1, 1, 1.5, 1): three pairs not tied, (0,2) (1,2) (3,2); moved orders them +, -, +
    tau = (2 - 1) / math.sqrt(3 * 6)
    assert value(KendallDrop(attribution=GRADIENT), model) == pytest.approx(-tau)


def test_prediction_losses(model: LinearSoftmax) -> None:
    # logits at x: +-4.5, at x': +-5
    assert value(CrossEntropy(at="clean"), model) == pytest.approx(math.log(1 + math.exp(-9)), rel=1e-3)
    assert value(CrossEntropy(), model) == pytest.approx(math.log(1 + math.exp(-10)), rel=1e-3)
    assert value(Margin(), model) == pytest.approx(-10)
    assert value(NoDirection(), model) == 0


def test_losses_compose(model: LinearSoftmax) -> None:
    a, b = Margin(), MapCosine(attribution=GRADIENT)
    one, two = value(a, model), value(b, model)
    assert value(a + 0.5 * b, model) == pytest.approx(one + 0.5 * two)
    assert value(a - b * 2, model) == pytest.approx(one - 2 * two)
    assert value(-a, model) == pytest.approx(-one)
    assert (a + b).second_order
    assert not (a + a).second_order
    assert (a + 3 * b).points == 1


def test_clean_side_is_computed_once_and_may_be_handed_in(model: LinearSoftmax) -> None:
    loss = Margin() + 2 * MapCosine(attribution=GRADIENT)
    clean = loss.prepare(model, pair())
    assert loss(model, pair(), clean).item() == pytest.approx(value(loss, model))
    rows = hf.losses.select(clean, torch.tensor([0]))
    assert torch.equal(rows["second"]["map"], clean["second"]["map"])


def test_at_must_be_one_of_two() -> None:
    with pytest.raises(hf.InputError, match="perturbed"):
        CrossEntropy(at="both")
