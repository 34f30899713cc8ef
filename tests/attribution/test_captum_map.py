"""Maps of captum: equal to captum's own answers, scored by the real map, attacked through a stand-in."""

import copy
import warnings

import numpy as np
import pytest
import torch
from captum import attr
from tests.trained import digits, trained
from torch import Tensor, nn

import holdfast as hf
from holdfast.attacks import Outcome
from holdfast.attribution import CaptumMap, from_captum
from holdfast.engine.passes import count_passes
from holdfast.evaluation.identity import words_of
from holdfast.losses import MapCosine


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return copy.deepcopy(trained("digits-cnn", 8)).double()


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    x, y = digits("test")
    return x[:5].double(), y[:5]


METHODS = {
    "Saliency": (attr.Saliency, {}),
    "IntegratedGradients": (attr.IntegratedGradients, {"n_steps": 12, "method": "riemann_right"}),
    "InputXGradient": (attr.InputXGradient, {}),
    "DeepLift": (attr.DeepLift, {"baselines": 0.1}),
    "GuidedBackprop": (attr.GuidedBackprop, {}),
    "Occlusion": (attr.Occlusion, {"sliding_window_shapes": (1, 3, 3), "strides": (1, 2, 2), "baselines": 0.0}),
}


@pytest.mark.parametrize("name", METHODS)
def test_equals_captums_own_answer(name: str, net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    """Their usual call has the logits and a target; ours has the score of the label as output."""
    method, options = METHODS[name]
    x, y = batch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = method(net).attribute(x.clone().requires_grad_(), target=y, **options).detach()
    ours = from_captum(method, **options)(net, x, y)
    assert ours.any()
    torch.testing.assert_close(ours, theirs.double(), rtol=1e-5, atol=1e-6)  # Occlusion answers in single
    assert not ours.requires_grad


def test_equals_our_own_maps(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    options = {"n_steps": 12, "method": "riemann_right"}
    for score in (hf.true_logit, hf.centred_logit, hf.true_probability, hf.true_loss):
        theirs = from_captum(attr.IntegratedGradients, score=score, **options)(net, *batch)
        torch.testing.assert_close(theirs, hf.IntegratedGradients(steps=12, score=score)(net, *batch))
        theirs = from_captum(attr.Saliency, abs=False, score=score)(net, *batch)
        torch.testing.assert_close(theirs, hf.Gradient(score=score)(net, *batch))
    theirs = from_captum(attr.LayerGradCam, layer="features.3", relu_attributions=True)(net, *batch)
    torch.testing.assert_close(theirs, hf.GradCAM(layer="features.3")(net, *batch))


@pytest.mark.parametrize("name", METHODS)
def test_the_split_of_the_batch_changes_nothing(name: str, net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    method, options = METHODS[name]
    x, y = batch
    whole = from_captum(method, **options)(net, x, y)
    alone = torch.cat([from_captum(method, **options)(net, x[i : i + 1], y[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(whole, alone)
    torch.testing.assert_close(whole, from_captum(method, chunk=2, **options)(net, x, y))
    assert from_captum(method, **options)(net, x[:0], y[:0]).shape == (0, 1, 8, 8)


RANDOM = {
    "GradientShap": from_captum(attr.GradientShap, baselines=torch.rand(4, 1, 8, 8).double(), n_samples=3, stdevs=0.1),
    "KernelShap": from_captum(attr.KernelShap, n_samples=5, seed=2),
    "NoiseTunnel": from_captum(lambda net: attr.NoiseTunnel(attr.Saliency(net)), nt_samples=3, stdevs=0.2),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_methods_draw_the_same_numbers_for_every_image(name: str, batch: tuple[Tensor, Tensor]) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Tanh()).double()
    found, (x, y) = RANDOM[name], batch
    torch.manual_seed(3)
    np.random.seed(3)
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # KernelShap suggests one image at a time
        whole = found(net, x, y)
        assert torch.equal(torch.get_rng_state(), state)  # the numbers of the caller are untouched
        assert (np.random.get_state()[1] == numbers).all()
        torch.manual_seed(4)
        again = found(net, x[[3, 1]], y[[3, 1]])
    torch.testing.assert_close(again, whole[[3, 1]])


def test_a_graph_is_refused_in_one_sentence(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    message = r"^expected create_graph=False for a map of captum, got create_graph=True; .* with a map of holdfast\.$"
    with pytest.raises(hf.InputError, match=message):
        from_captum(attr.Saliency)(net, *batch, create_graph=True)
    with pytest.raises(hf.InputError, match=message):
        MapCosine(attribution=from_captum(attr.Saliency))(net, hf.Pair(batch[0], batch[0], batch[1]))


def test_wrong_methods_and_options_are_one_sentence(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(hf.InputError, match=r"expected options of captum's Saliency \(abs\), got absolute, steps\.$"):
        from_captum(attr.Saliency, absolute=True, steps=3)
    with pytest.raises(hf.InputError, match=r"expected a class of captum.attr, or a function .*, got 'Saliency'\.$"):
        from_captum("Saliency")  # type: ignore[arg-type]
    with pytest.raises(
        hf.InputError, match=r"one map \[B, C, H, W\] from captum's LayerActivation, got shape \[5, 48\]"
    ):
        from_captum(attr.LayerActivation, layer="head.1")(net, *batch)
    with pytest.raises(hf.InputError, match="score to be one of"):
        from_captum(attr.Saliency, score="logit")


def test_settings_are_compared_and_written_down() -> None:
    one, two = (from_captum(attr.Occlusion, sliding_window_shapes=(1, 2, 2)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert "Occlusion" in words_of(one)
    assert "sliding_window_shapes" in words_of(one)
    assert hf.maps.from_captum is from_captum
    assert isinstance(one, CaptumMap)


def test_the_default_stand_in_explains_the_same_score() -> None:
    assert from_captum(attr.DeepLift, score="centred-logit").search_map == hf.IntegratedGradients(
        score=hf.centred_logit
    )
    assert from_captum(attr.Saliency).search_map == hf.Gradient()
    assert from_captum(attr.InputXGradient).search_map == hf.InputXGradient()
    assert from_captum(attr.Saliency, search_map=hf.GradCAM()).search_map == hf.GradCAM()


def test_passes_are_counted(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    with count_passes() as counter:
        from_captum(attr.Saliency)(net, *batch)
    assert counter.passes == 5 * 2
    with count_passes() as counter:
        from_captum(attr.Occlusion, sliding_window_shapes=(1, 4, 4), strides=(1, 4, 4))(net, *batch)
    assert counter.passes == 5 * (1 + 4)  # the image, and one window at a time


NOTE = "the search ascended Gradient in place of the scored map, which has no second derivative"


def test_ifia_ascends_the_stand_in_and_scores_the_map(net: nn.Module) -> None:
    x, y = (part[:12] for part in digits("test"))
    x, keys = x.double(), hf.make_keys(0, torch.arange(12))
    settings = {"eps": 0.1, "step_size": 0.02, "steps": 6, "k": 10}
    judged = from_captum(attr.DeepLift, search_map=hf.Gradient())
    attack = hf.recipes.ifia(**settings, attribution=judged)
    assert attack.attribution == attack.pgd.best_by.attribution == judged
    assert attack.pgd.loss.attribution == hf.Gradient()
    result = attack.run(net, x, y, keys=keys)
    assert result.notes == (NOTE,)
    assert NOTE in result.warnings
    moved = result.outcome == Outcome.ATTACKED
    assert int(moved.sum()) >= 10
    before, after = (hf.saliency_map(judged(net, images[moved], y[moved])) for images in (x, result.x_adv))
    tau = hf.metrics.kendall_tau(before, after)
    torch.testing.assert_close(result.scores.kendall[moved], tau)
    # a map that equals one of ours is attacked exactly as ours is
    saliency = hf.recipes.ifia(**settings, attribution=from_captum(attr.Saliency)).run(net, x, y, keys=keys)
    ours = hf.recipes.ifia(**settings, attribution=hf.Gradient()).run(net, x, y, keys=keys)
    torch.testing.assert_close(saliency.x_adv, ours.x_adv)
    torch.testing.assert_close(saliency.scores.kendall, ours.scores.kendall, equal_nan=True)
    assert ours.notes == ()


def test_the_strongest_attack_ascends_the_stand_in_too(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    judged = from_captum(attr.DeepLift, search_map=hf.Gradient())
    attack = hf.recipes.strongest(eps=0.1, k=10, passes=60, attribution=judged)
    assert attack.searched == hf.Gradient()
    result = attack.run(net, *batch, keys=torch.arange(5))
    assert result.notes == (NOTE,)
    assert result.counts["attacked"] >= 4
    assert hf.recipes.strongest(eps=0.1, k=10, attribution=hf.Gradient()).searched is None


def test_the_random_control_needs_no_stand_in(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    attack = hf.recipes.ifia(
        eps=0.1, step_size=0.05, steps=2, k=5, kind="random", attribution=from_captum(attr.Saliency)
    )
    assert attack.run(net, *batch, keys=torch.arange(5)).notes == ()


def test_fewer_points_apply_to_the_stand_in() -> None:
    judged = from_captum(attr.DeepLift)
    attack = hf.recipes.ifia(eps=0.1, step_size=0.05, steps=2, k=5, search_ig_steps=4, attribution=judged)
    assert attack.pgd.loss.attribution == hf.IntegratedGradients().with_points(4)
    assert attack.pgd.best_by.attribution == judged


def test_an_audit_of_a_map_of_captum_says_what_was_searched() -> None:
    data = hf.data.load("digits", split="test").subset(range(8))
    settings = hf.AuditSettings(eps=0.1, steps=2, limit=8, attribution=from_captum(attr.DeepLift), strong=False)
    found = hf.audit(trained("digits-cnn", 8), data, settings)
    rows = [row for row in found.evaluation.rows if row.outcome == "attacked" and row.attack == "ifia-topk"]
    assert rows
    assert all("the search ascended IntegratedGradients" in row.notes for row in rows)
