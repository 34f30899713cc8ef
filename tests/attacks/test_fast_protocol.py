"""The fast protocol: few points inside the search, the full map for the verdict, and nothing computed twice."""

import pytest
import torch
from tests.oracles import tiny_images, tiny_net

import holdfast as hf
from holdfast.engine.passes import count_passes

SETTINGS = {"eps": 0.2, "step_size": 0.05, "k": 8, "steps": 1}


def attacked(**settings) -> tuple:
    net, x = tiny_net(), tiny_images(1)
    y = net(x).argmax(1)
    with count_passes() as meter:
        result = hf.recipes.ifia(**SETTINGS | settings).run(net, x, y, keys=hf.make_keys(0, torch.arange(1)))
    return net, x, y, result, meter.passes


@pytest.mark.parametrize("points", [3, 10])
def test_no_map_is_computed_twice(points: int) -> None:
    # clean map 2 p, the step 4 p, the judge of the new iterate 2 p, whose map is the final one; three predictions
    assert attacked(ig_steps=points)[-1] == 8 * points + 3


def test_only_the_verdict_costs_full_maps() -> None:
    # clean and final map 4 p; with q midpoints: clean map, for mask and judge, 2 q, step 4 q, judge 2 q
    assert attacked(ig_steps=30, search_ig_steps=2)[-1] == 4 * 30 + 8 * 2 + 3


@pytest.mark.parametrize("ball", [{"eps": 0.1, "ball": hf.L2(1.0)}, {"eps": None}])
def test_one_ball_and_no_more(ball: dict[str, object]) -> None:
    with pytest.raises(hf.InputError, match="either eps"):
        hf.recipes.ifia(**SETTINGS | ball)


@pytest.mark.parametrize("settings", [{"search_ig_steps": 2}, {}, {"steps": 4}])
def test_scores_are_those_of_the_full_maps(settings: dict[str, int]) -> None:
    net, x, y, result, _ = attacked(ig_steps=40, **settings)
    full = hf.IntegratedGradients(steps=40)
    maps = [hf.saliency_map(full(net, image, y)) for image in (x, result.x_adv)]
    torch.testing.assert_close(result.scores.kendall, hf.metrics.kendall_tau(*maps))
    assert (result.x_adv - x).abs().max() > 0


def test_the_direction_comes_from_midpoints() -> None:
    *_, fast, _ = attacked(ig_steps=50, search_ig_steps=50)
    *_, full, _ = attacked(ig_steps=50)
    assert (fast.x_adv == full.x_adv).double().mean() > 0.9  # two rules with many points give nearly the same signs


def test_only_for_integrated_gradients() -> None:
    with pytest.raises(hf.InputError, match="a map with a number of points to reduce"):
        hf.recipes.ifia(**SETTINGS, attribution=hf.Gradient(), search_ig_steps=3)


def test_members_of_an_ensemble_share_the_clean_map() -> None:
    net, x = tiny_net(), tiny_images(1)
    y, keys = net(x).argmax(1), hf.make_keys(0, torch.arange(1))
    attack = hf.recipes.ifia_ensemble(eps=0.2, k=8, steps=1, ig_steps=10, variants=((False, 1.0),))
    with count_passes() as meter:
        together = attack.run(net, x, y, keys=keys)
    alone = [member.run(net, x, y, keys=keys) for member in attack.members.values()]
    # one clean map and one prediction for all four members, 6 p + 2 for each
    assert meter.passes == (2 * 10 + 1) + 4 * (6 * 10 + 2)
    for shared, own in zip(together.members, alone, strict=True):
        assert torch.equal(shared.x_adv, own.x_adv)
        torch.testing.assert_close(shared.scores.kendall, own.scores.kendall)
