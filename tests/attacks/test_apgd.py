"""Auto-PGD walks as the algorithm of Croce and Hein says, and keeps what every attack keeps."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import tiny_images, tiny_net
from torch import Tensor, nn

import holdfast as hf
from holdfast import rng
from holdfast.attacks import APGD
from holdfast.attacks.apgd import checkpoints
from holdfast.losses import DLR, CrossEntropy, MapCosine
from holdfast.types import Pair


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (100, (22, 41, 57, 70, 80, 87, 93, 99)),
        (50, (11, 21, 29, 35, 40, 44, 47, 50)),  # 20.5, 28.5, 43.5, 46.5 and 49.5 rounded up
        (10, (3, 5, 6, 7, 8, 9, 10)),
        (1, (1,)),
        (0, ()),
    ],
)
def test_checkpoints_by_hand(steps: int, expected: tuple[int, ...]) -> None:
    assert checkpoints(steps) == expected


def walk_of_one(net: nn.Module, loss, ball, image: Tensor, label: int, start: Tensor, steps: int) -> tuple:
    """Slow and clear: the algorithm on one image; the point it returns, its loss, whether it fooled, the step sizes."""
    y = torch.tensor([label])

    def look(point: Tensor) -> dict:
        point = point.clone().requires_grad_()
        value = loss(net, Pair(image, point, y))
        (gradient,) = torch.autograd.grad(value.sum(), point)
        there = point.detach()
        return {"x": there, "f": value.item(), "g": gradient, "fooled": int(net(there).argmax()) != label}

    here = previous = best = look(start)
    size, sizes, increases, last = 2 * ball.eps, [2 * ball.eps], 0, 0
    best_at_last, halved_at_last = best["f"], False
    for k in range(1, steps + 1):
        if here["fooled"]:
            break
        z = ball.project(here["x"] + size * ball.step(here["g"]), image)
        if k > 1:
            z = ball.project(here["x"] + 0.75 * (z - here["x"]) + 0.25 * (here["x"] - previous["x"]), image)
        previous, here = here, look(z)
        increases += here["f"] > previous["f"]
        best = here if here["f"] > best["f"] else best
        if k in checkpoints(steps) and not here["fooled"]:
            condition_1 = increases < 0.75 * (k - last)
            condition_2 = not halved_at_last and best["f"] == best_at_last
            halved_at_last = condition_1 or condition_2
            if halved_at_last:
                size, here = size / 2, best
            best_at_last, last, increases = best["f"], k, 0
            sizes.append(size)
    kept = here if here["fooled"] else best
    return kept["x"], kept["f"], kept["fooled"], sizes


@pytest.mark.parametrize("loss", [CrossEntropy(), DLR(), DLR(target_rank=2)], ids=["ce", "dlr", "targeted"])
@pytest.mark.parametrize("ball", [hf.Linf(0.02), hf.L2(0.1), hf.Linf(0.3)], ids=repr)
def test_the_walk_of_the_algorithm(loss, ball) -> None:
    net, x = tiny_net(2), tiny_images(6)
    y, keys = net(x).argmax(1), hf.make_keys(0, torch.arange(6))
    found = APGD(loss, ball=ball, steps=30).run(net, x, y, keys=keys)
    start = ball.sample(rng.combine(keys, 0), x)
    every_size = set()
    for i in range(6):
        rows = slice(i, i + 1)
        x_adv, value, fooled, sizes = walk_of_one(net, loss, ball, x[rows], int(y[i]), start[rows], 30)
        torch.testing.assert_close(found.x_adv[rows], x_adv, rtol=0, atol=1e-7)
        assert float(found.value[i]) == pytest.approx(value, rel=1e-7)
        assert bool(found.fooled[i]) == fooled
        every_size |= set(sizes)
    if ball.eps < 0.3:
        assert len(every_size) > 2  # the schedule was put to the test


attacks = st.builds(
    APGD,
    st.sampled_from([CrossEntropy(), DLR(), DLR(target_rank=1)]),
    ball=st.one_of(st.builds(hf.Linf, st.floats(0, 0.4)), st.builds(hf.L2, st.floats(0, 2))),
    steps=st.integers(0, 12),
    restarts=st.integers(1, 2),
)


@settings(max_examples=40)
@given(attack=attacks, seed=st.integers(0, 50))
def test_inside_ball_and_bounds_and_never_worse_than_the_start(attack: APGD, seed: int) -> None:
    net, x = tiny_net(seed % 5), tiny_images(4, seed)
    y, keys = net(x).argmax(1), hf.make_keys(seed, torch.arange(4))
    before, state = x.clone(), {k: v.clone() for k, v in net.state_dict().items()}
    result = attack.run(net, x, y, keys=keys)
    change = (result.x_adv - x).flatten(1)
    size = change.abs().amax(1) if isinstance(attack.ball, hf.Linf) else change.norm(dim=1)
    assert (size <= attack.ball.eps + 1e-12).all()
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 1
    assert not result.x_adv.requires_grad
    assert torch.equal(net(result.x_adv).argmax(1) != y, result.fooled)
    start = attack.ball.sample(rng.combine(keys, 0), x)
    at_start = attack.loss(net, Pair(x, start, y)).detach()
    assert ((result.value >= at_start - 1e-12) | result.fooled).all()
    assert torch.equal(x, before)
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


@settings(max_examples=10)
@given(seed=st.integers(0, 100), loss=st.sampled_from([CrossEntropy(), DLR(), DLR(target_rank=1)]))
def test_batch_split_and_order_change_nothing(seed: int, loss) -> None:
    net, x = tiny_net(), tiny_images(6, seed)
    y, keys = net(x).argmax(1), hf.make_keys(seed, torch.arange(6))
    attack = APGD(loss, ball=hf.Linf(0.05), steps=12, restarts=2)
    whole = attack(net, x, y, keys=keys)
    parts = [attack(net, x[rows], y[rows], keys=keys[rows]) for rows in (slice(0, 1), slice(1, 4), slice(4, 6))]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)
    order = torch.tensor([5, 2, 0, 3, 1, 4])
    torch.testing.assert_close(attack(net, x[order], y[order], keys=keys[order]), whole[order], rtol=0, atol=1e-12)
    chunked = APGD(loss, ball=hf.Linf(0.05), steps=12, restarts=2, chunk=2)
    torch.testing.assert_close(chunked(net, x, y, keys=keys), whole, rtol=0, atol=1e-12)


def test_keys_decide_the_start() -> None:
    net, x = tiny_net(), tiny_images(4)
    y = net(x).argmax(1)
    attack = APGD(CrossEntropy(), ball=hf.Linf(0.01), steps=0)
    one, same, other = (attack(net, x, y, keys=hf.make_keys(seed, torch.arange(4))) for seed in (0, 0, 1))
    torch.manual_seed(5)  # the global generator has no say
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_finished_examples_cost_nothing_more() -> None:
    net, x = tiny_net(), tiny_images(8)
    y = net(x).argmax(1)
    y[:6] = (y[:6] + 1) % 3  # wrong before the attack
    images = 0

    def counting(v: Tensor) -> Tensor:
        nonlocal images
        images += len(v)
        return net(v)

    result = APGD(CrossEntropy(), ball=hf.Linf(1e-6), steps=10).run(counting, x, y, keys=torch.arange(8))
    assert result.fooled.tolist() == [True] * 6 + [False] * 2
    assert torch.equal(result.x_adv[:6], x[:6])
    assert images == 8 + 2 * 11  # labels once, then one pass at the start and one per step for the two that are left


def test_examples_that_are_not_active_stay() -> None:
    net, x = tiny_net(), tiny_images(4)
    y, keys = net(x).argmax(1), torch.arange(4)
    active = torch.tensor([True, False, True, False])
    attack = APGD(CrossEntropy(), ball=hf.Linf(0.2), steps=5)
    some, every = attack.run(net, x, y, keys=keys, active=active), attack.run(net, x, y, keys=keys)
    assert torch.equal(some.x_adv[~active], x[~active])
    torch.testing.assert_close(some.x_adv[active], every.x_adv[active], rtol=0, atol=1e-12)
    assert not some.found[~active].any()


def test_a_second_restart_finds_no_less() -> None:
    net, x = tiny_net(), tiny_images(8)
    y, keys = net(x).argmax(1), hf.make_keys(0, torch.arange(8))
    one, four = (
        APGD(CrossEntropy(), ball=hf.Linf(0.02), steps=2, restarts=n).run(net, x, y, keys=keys) for n in (1, 4)
    )
    assert ((four.value >= one.value) | four.fooled).all()
    assert (four.value > one.value).any()


def test_bad_settings() -> None:
    ball = hf.Linf(0.1)
    for bad in ({"steps": -1}, {"restarts": 0}, {"restarts": 2, "random_start": False}, {"chunk": 0}):
        with pytest.raises(hf.InputError, match="expected"):
            APGD(CrossEntropy(), ball=ball, **bad)
    with pytest.raises(hf.InputError, match="a loss of the prediction"):
        APGD(MapCosine(), ball=ball)
    with pytest.raises(hf.InputError, match="ce, dlr"):
        hf.recipes.apgd(eps=0.1, loss="hinge")
    assert math.isclose(hf.recipes.apgd(eps=0.1, loss="dlr").ball.eps, 0.1)
    assert hf.recipes.apgd(ball=hf.L2(1.0), loss=DLR(target_rank=2)).loss == DLR(target_rank=2)
