"""What holds for every attack: ball, bounds, label, never worse than the start, nothing touched, keys decide."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nets import BatchNormNet
from tests.oracles import tiny_images, tiny_net

import holdfast as hf
from holdfast.attacks import LAST, PGD, Outcome
from holdfast.losses import CrossEntropy, KendallDrop, MapCosine, Margin, TopKMass
from holdfast.types import Pair

IG = hf.IntegratedGradients(steps=3)
LOSSES = {
    "ce": CrossEntropy(),
    "margin": Margin(),
    "topk": TopKMass(k=6, attribution=IG),
    "cosine+ce": MapCosine(attribution=IG) + 0.5 * CrossEntropy(),
}
attacks = st.builds(
    PGD,
    st.sampled_from(list(LOSSES.values())),
    ball=st.one_of(st.builds(hf.Linf, st.floats(0, 0.4)), st.builds(hf.L2, st.floats(0, 2))),
    steps=st.integers(0, 4),
    step_size=st.floats(0, 0.3),
    random_start=st.booleans(),
    keep_prediction=st.booleans(),
    best_by=st.sampled_from([None, LAST, KendallDrop(attribution=IG)]),
    quantize=st.booleans(),
)


@settings(max_examples=60)
@given(attack=attacks, seed=st.integers(0, 50))
def test_inside_ball_and_bounds_with_the_label_kept(attack: PGD, seed: int) -> None:
    net, x = tiny_net(seed % 5), (tiny_images(4, seed) * 255).round() / 255
    y = net(x).argmax(1)
    x_before, state = x.clone(), {k: v.clone() for k, v in net.state_dict().items()}
    x_adv = attack(net, x, y, keys=hf.make_keys(seed, torch.arange(4)))
    change = (x_adv - x).flatten(1)
    size = change.abs().amax(1) if isinstance(attack.ball, hf.Linf) else change.norm(dim=1)
    assert (size <= attack.ball.eps + 1e-12).all()
    assert x_adv.min() >= 0
    assert x_adv.max() <= 1
    assert not x_adv.requires_grad
    if attack.quantize:
        torch.testing.assert_close(x_adv * 255, (x_adv * 255).round(), rtol=0, atol=1e-6)
    if attack.keep_prediction:
        assert torch.equal(net(x_adv).argmax(1), y)
    # inputs and model as found
    assert torch.equal(x, x_before)
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


@settings(max_examples=25)
@given(seed=st.integers(0, 100), start=st.booleans(), name=st.sampled_from(list(LOSSES)))
def test_never_worse_than_the_start(seed: int, start: bool, name: str) -> None:
    net, x = tiny_net(seed % 5), tiny_images(3, seed)
    y, keys, ball = net(x).argmax(1), hf.make_keys(seed, torch.arange(3)), hf.Linf(0.1)
    loss = LOSSES[name]
    x_start = PGD(loss, ball=ball, steps=0, step_size=0.0, random_start=start)(net, x, y, keys=keys)
    x_adv = PGD(loss, ball=ball, steps=4, step_size=0.05, random_start=start)(net, x, y, keys=keys)
    assert (loss(net, Pair(x, x_adv, y)) >= loss(net, Pair(x, x_start, y)) - 1e-12).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 100))
def test_keys_decide_everything(seed: int) -> None:
    net, x = tiny_net(), tiny_images(4, seed)
    y = net(x).argmax(1)
    attack = PGD(CrossEntropy(), ball=hf.Linf(0.2), steps=0, step_size=0.0, random_start=True)
    keys = hf.make_keys(seed, torch.arange(4))
    order = torch.tensor([2, 0, 3, 1])
    first = attack(net, x, y, keys=keys)
    torch.manual_seed(seed)  # the global generator has no say
    assert torch.equal(attack(net, x[order], y[order], keys=keys[order]), first[order])
    assert not torch.equal(attack(net, x, y, keys=hf.make_keys(seed + 1, torch.arange(4))), first)


def test_more_restarts_never_hurt_the_attack() -> None:
    net, x = tiny_net(), tiny_images(8)
    y, keys = net(x).argmax(1), hf.make_keys(0, torch.arange(8))
    run = lambda restarts: PGD(  # noqa: E731
        CrossEntropy(), ball=hf.Linf(0.1), steps=2, step_size=0.05, random_start=True, restarts=restarts
    ).run(net, x, y, keys=keys)
    one, four = run(1), run(4)
    assert (four.value >= one.value).all()
    assert (four.value > one.value).any()


def test_batch_norm_statistics_and_modes_are_untouched() -> None:
    net = BatchNormNet().double().train()
    net.stem.eval()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    x = tiny_images(4)
    hf.recipes.ifia(eps=0.1, step_size=0.05, steps=2, k=5, ig_steps=2)(
        net, x, torch.zeros(4, dtype=torch.int64), keys=torch.arange(4)
    )
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert net.training
    assert not net.stem.training
    assert net.body.training


def test_fooled_examples_cost_nothing_more() -> None:
    net, x = tiny_net(), tiny_images(8)
    y = net(x).argmax(1)
    y[:6] = (y[:6] + 1) % 3  # already wrong: nothing to do for six of eight
    images = 0

    def counting(v: torch.Tensor) -> torch.Tensor:
        nonlocal images
        images += len(v)
        return net(v)

    attack = PGD(CrossEntropy(), ball=hf.Linf(1e-6), steps=10, step_size=1e-7, stop_when_fooled=True)
    result = attack.run(counting, x, y, keys=torch.arange(8))
    assert result.fooled.tolist() == [True] * 6 + [False] * 2
    # labels once, one pass of all eight (gradient and label), then two passes a step for the two that are left
    assert images <= 8 + 2 * 8 + 10 * 2 * 2


def test_contradictions_are_refused() -> None:
    ball = hf.Linf(0.1)
    for bad in (
        {"keep_prediction": True, "stop_when_fooled": True},
        {"best_by": LAST, "random_start": True, "restarts": 2},
        {"chunk": 0},
    ):
        with pytest.raises(hf.InputError, match="expected"):
            PGD(CrossEntropy(), ball=ball, steps=1, step_size=0.1, **bad)


def test_small_steps_add_up_to_grey_levels() -> None:
    net, x = tiny_net(), (tiny_images(4) * 255).round() / 255
    y, keys = net(x).argmax(1), torch.arange(4)
    ensemble = hf.recipes.ifia_ensemble(eps=8 / 255, k=9, steps=20, step_size=0.4 / 255, ig_steps=2, quantize=True)
    result = ensemble.run(net, x, y, keys=keys)
    for name, member in zip(result.names, result.members, strict=True):
        assert member.counts["attacked"] > 0, name


def test_last_iterate_stops_as_soon_as_fooled() -> None:
    net, x = tiny_net(), tiny_images(4)
    images = 0

    def counting(v: torch.Tensor) -> torch.Tensor:
        nonlocal images
        images += len(v)
        return net(v)

    wrong = (net(x).argmax(1) + 1) % 3
    PGD(CrossEntropy(), ball=hf.Linf(0.1), steps=50, step_size=0.01, best_by=LAST, stop_when_fooled=True).run(
        counting, x, wrong, keys=torch.arange(4)
    )
    assert images == 4  # one look; all are wrong already


def test_zero_budget_returns_the_image_and_scores_of_exactly_one() -> None:
    net, x = tiny_net(), tiny_images(3)
    y = net(x).argmax(1)
    result = hf.recipes.ifia(eps=0.0, step_size=0.05, steps=3, k=5, ig_steps=3).run(net, x, y, keys=torch.arange(3))
    assert torch.equal(result.x_adv, x)
    assert (result.outcome == Outcome.UNMOVED).all()
    for name in ("top_k", "kendall", "spearman", "cosine"):
        assert (getattr(result.scores, name) == 1).all()
    assert (result.scores.center_shift == 0).all()


@pytest.mark.parametrize("ball", [hf.Linf(0.3), hf.L2(1.5)])
def test_samples_fill_the_ball(ball) -> None:
    x = torch.full((500, 1, 2, 2), 0.5)
    change = (ball.sample(hf.make_keys(0, torch.arange(500)), x) - x).flatten(1)
    size = change.abs().amax(1) if isinstance(ball, hf.Linf) else change.norm(dim=1)
    assert size.max() <= ball.eps + 1e-6
    assert size.max() > 0.9 * min(ball.eps, 1.0)
    assert size.min() < 0.7 * ball.eps
    assert change.mean(0).abs().max() < 0.05
