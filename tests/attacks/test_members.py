"""The members of the strongest attack, one at a time: gradient and gradient-free ones, and an attack without one."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.oracles import tiny_images, tiny_net
from torch import Tensor

import holdfast as hf
from holdfast.attacks.members import GRADIENT_FREE, contrast
from holdfast.attacks.problem import Problem
from holdfast.evaluation.identity import same, words_of
from holdfast.recipes.attacks.strongest import members, strongest

NAMES = [member.name for member in (*members(4), *GRADIENT_FREE)]


def attack(ball: hf.attacks.Ball, passes: int = 200) -> hf.attacks.StrongestAttack:
    return strongest(ball=ball, k=4, ig_steps=6, passes=passes)


def alone(whole: hf.attacks.StrongestAttack, name: str) -> hf.attacks.StrongestAttack:
    one = [tuple(m for m in group if m.name == name) for group in (whole.members, whole.gradient_free)]
    return replace(whole, members=one[0], gradient_free=one[1])


@pytest.mark.parametrize("ball", [hf.Linf(0.2), hf.L2(0.8)], ids=["linf", "l2"])
@pytest.mark.parametrize("name", NAMES)
def test_each_member_alone_stays_inside_ball_and_bounds_with_the_label_kept(name: str, ball: hf.attacks.Ball) -> None:
    net, x = tiny_net(3), tiny_images(4, seed=3)
    y = net(x).argmax(1)
    result = alone(attack(ball), name).run(net, x, y, keys=torch.arange(4))
    order = torch.inf if isinstance(ball, hf.Linf) else 2
    for image in result.images.values():
        assert bool(((image - x).flatten(1).norm(p=order, dim=1) <= ball.eps + 1e-6).all())
        assert bool(((image >= 0) & (image <= 1)).all())
        assert net(image).argmax(1).equal(y)
    assert {winner for found in result.winners.values() for winner in found} - {""} == {name}


@pytest.mark.parametrize("name", NAMES)
def test_one_member_is_left_out(name: str) -> None:
    whole = attack(hf.Linf(0.2))
    assert whole.names == tuple(NAMES)
    part = whole.without(name)
    assert part.names == tuple(other for other in NAMES if other != name)
    for points in (1, 50):
        before, after = whole.schedule(points), part.schedule(points)
        assert min(after.finish) >= min(before.finish)  # the others get its passes
    with pytest.raises(hf.InputError, match=r"expected a member of the attack, got rotation; choose one of topk-wide"):
        whole.without("rotation")


def test_a_member_is_added_with_one_line() -> None:
    def brighter(problem: object, start: Tensor, number: int, queries: int, *, asked: list[int]) -> Tensor:
        asked.append(number)
        return start + 0.1

    asked: list[int] = []
    mine = hf.attacks.GradientFree(name="b", propose=partial(brighter, asked=asked), queries=3, every_round=True)
    net, x = tiny_net(), tiny_images(2)
    whole = replace(attack(hf.Linf(0.2), passes=10_000), members=(), gradient_free=(*GRADIENT_FREE[:2], mine))
    whole.run(net, x, net(x).argmax(1), keys=torch.arange(2))
    assert asked == [0, 1, 2, 3, 4, 5]  # two rounds of three queries


def test_the_contrast_image_by_hand() -> None:
    whole = attack(hf.Linf(0.25))
    x = torch.full((1, 1, 6, 6), 0.5)
    maps = torch.arange(36.0).reshape(1, 6, 6)
    problem = Problem(
        model=lambda x: x.flatten(1),
        x=x,
        y=torch.tensor([0]),
        keys=torch.tensor([0]),
        ball=whole.ball,
        attribution=whole.attribution,
        searched=whole.attribution,
        clean_maps=maps,
    )
    low = maps[:, None] <= 17  # the lower median of 0 to 35
    expected = torch.where(low, 0.75, 0.25)
    assert contrast(problem, x, 0, 1).equal(expected)
    assert GRADIENT_FREE[1].propose(problem, x, 0, 1).equal(1 - expected)


def test_settings_without_the_list_of_gradient_free_members_mean_the_default_list() -> None:
    """Rows measured before the list was a setting can still be continued; rows of another list cannot."""
    whole = replace(attack(hf.Linf(0.2)), edition=0)
    now, before = words_of(whole), words_of(whole).partition(", gradient_free=")[0] + ")"
    assert "gradient_free" not in before
    assert same(before, now)
    assert not same(before, words_of(whole.without("contrast")))
    assert not same(before, words_of(replace(whole, gradient_free=(replace(GRADIENT_FREE[0], queries=2),))))
