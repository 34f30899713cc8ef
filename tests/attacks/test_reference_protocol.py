"""IFIA against the one-image oracle, step by step, and the independence from batch, chunk and processes."""

from dataclasses import replace

import pytest
import torch
from tests.oracles import ifia_topk, tiny_images, tiny_net

import holdfast as hf
from holdfast.attacks import LAST, PGD, Outcome
from holdfast.config import make_config
from holdfast.experiment.measure import MeasureOptions, protocol_of
from holdfast.losses import CrossEntropy, TopKMass

SETTINGS = {"eps": 0.15, "steps": 8, "k": 9}
POINTS = 7


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_trajectory_equals_the_oracle(seed: int, channels: int) -> None:
    net, x = tiny_net(seed, channels), tiny_images(1, seed, channels)
    y = net(x).argmax(1)
    walk = ifia_topk(net, x[0], int(y), alpha=0.03, points=POINTS, **SETTINGS)
    loss = TopKMass(k=SETTINGS["k"], attribution=hf.IntegratedGradients(steps=POINTS))
    for t, iterate in enumerate(walk.iterates, start=1):
        attack = PGD(loss, ball=hf.Linf(SETTINGS["eps"]), steps=t, step_size=0.03, best_by=LAST)
        torch.testing.assert_close(attack(net, x, y, keys=torch.tensor([0]))[0], iterate, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_kept_iterate_and_kendall_equal_the_oracle(seed: int) -> None:
    net, x = tiny_net(seed), tiny_images(5, seed)
    y = net(x).argmax(1)
    result = hf.recipes.ifia(step_size=0.03, ig_steps=POINTS, **SETTINGS).run(net, x, y, keys=torch.arange(5))
    for i in range(5):
        walk = ifia_topk(net, x[i], int(y[i]), alpha=0.03, points=POINTS, **SETTINGS)
        assert walk.kept is not None
        torch.testing.assert_close(result.x_adv[i], walk.kept, rtol=0, atol=1e-12)
        assert result.scores.kendall[i].item() == pytest.approx(min(walk.kendall), abs=1e-12)


def attack_64() -> tuple:
    net, x = tiny_net(1), tiny_images(64)
    y = net(x).argmax(1)
    y[::9] = (y[::9] + 1) % 3  # some misclassified
    return net, x, y, hf.make_keys(0, torch.arange(64))


@pytest.mark.parametrize("kind", ["topk", "center", "cosine", "soft-topk", "random"])
def test_batch_of_64_equals_64_batches_of_1(kind: str) -> None:
    net, x, y, keys = attack_64()
    attack = hf.recipes.ifia(step_size=0.04, ig_steps=4, kind=kind, random_start=True, **(SETTINGS | {"steps": 4}))
    whole = attack.run(net, x, y, keys=keys)
    for i in range(64):
        alone = attack.run(net, x[i : i + 1], y[i : i + 1], keys=keys[i : i + 1])
        torch.testing.assert_close(whole.x_adv[i], alone.x_adv[0], rtol=0, atol=1e-12)
        assert whole.outcome[i] == alone.outcome[0]
        torch.testing.assert_close(whole.scores.kendall[i], alone.scores.kendall[0], rtol=0, atol=1e-12, equal_nan=True)
    assert whole.counts["misclassified"] == 8


@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_chunk_size_changes_nothing(chunk: int) -> None:
    net, x, y, keys = attack_64()
    settings = SETTINGS | {"steps": 4, "step_size": 0.04, "ig_steps": 5, "random_start": True}
    whole = hf.recipes.ifia(**settings).run(net, x[:12], y[:12], keys=keys[:12])
    parts = hf.recipes.ifia(chunk=chunk, **settings).run(net, x[:12], y[:12], keys=keys[:12])
    torch.testing.assert_close(parts.x_adv, whole.x_adv, rtol=0, atol=1e-12)


def _half(rank: int, path: str) -> None:
    torch.set_num_threads(1)
    net, x, y, keys = attack_64()
    rows = slice(rank * 32, rank * 32 + 32)
    attack = hf.recipes.ifia(step_size=0.04, ig_steps=4, random_start=True, **(SETTINGS | {"steps": 4}))
    from safetensors.torch import save_file

    save_file({"x_adv": attack(net, x[rows], y[rows], keys=keys[rows])}, f"{path}/{rank}.safetensors")


def test_two_processes_equal_one(tmp_path) -> None:
    from safetensors.torch import load_file

    torch.multiprocessing.spawn(_half, args=(str(tmp_path),), nprocs=2)
    net, x, y, keys = attack_64()
    attack = hf.recipes.ifia(step_size=0.04, ig_steps=4, random_start=True, **(SETTINGS | {"steps": 4}))
    halves = torch.cat([load_file(tmp_path / f"{rank}.safetensors")["x_adv"] for rank in range(2)])
    torch.testing.assert_close(halves, attack(net, x, y, keys=keys), rtol=0, atol=1e-12)


def test_misclassified_images_are_skipped_and_counted() -> None:
    net, x, y, keys = attack_64()
    result = hf.recipes.ifia(step_size=0.04, ig_steps=4, **SETTINGS).run(net, x, y, keys=keys)
    wrong = torch.arange(0, 64, 9)
    assert (result.outcome[wrong] == Outcome.MISCLASSIFIED).all()
    assert torch.equal(result.x_adv[wrong], x[wrong])
    assert result.scores.kendall[wrong].isnan().all()
    assert sum(result.counts.values()) == 64


def test_total_failure_counts_as_one_and_says_so() -> None:
    # one bright pixel decides the label, so every step of the full budget loses it
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 2)).double()
    with torch.no_grad():
        net[1].weight[:] = torch.stack([torch.ones(36), -torch.ones(36)])
        net[1].bias[:] = torch.tensor([-35.9, 35.9])
    x = torch.full((1, 1, 6, 6), 0.9999).double() * torch.linspace(0.9999, 1, 36).reshape(1, 1, 6, 6)
    y = net(x).argmax(1)
    attack = hf.recipes.ifia(eps=0.5, step_size=0.5, steps=3, k=5, ig_steps=3, kind="random")
    result = attack.run(net, x, y, keys=torch.tensor([0]))
    assert result.outcome.tolist() == [Outcome.LABEL_LOST]
    assert torch.equal(result.x_adv, x)
    assert [float(getattr(result.scores, m)) for m in ("top_k", "kendall", "spearman")] == [1.0, 1.0, 1.0]


def test_constant_map_is_reported_not_ranked() -> None:
    net = tiny_net()
    x = torch.zeros(1, 1, 6, 6).double()  # black: integrated gradients are zero everywhere
    result = hf.recipes.ifia(step_size=0.04, ig_steps=3, **SETTINGS).run(
        net, x, net(x).argmax(1), keys=torch.tensor([0])
    )
    assert result.counts["nan_map"] == 1
    assert result.scores.top_k.isnan().all()


def test_zero_gradient_takes_a_keyed_random_step() -> None:
    # fewer bright pixels than k: all mass lies inside the mask and the attacked quantity is constant at the start
    net = tiny_net()
    x = torch.zeros(2, 1, 6, 6).double()
    x[:, :, 2:4, 2:4] = 0.7
    y = net(x).argmax(1)
    keys = hf.make_keys(0, torch.tensor([5, 6]))
    attack = hf.recipes.ifia(step_size=0.03, ig_steps=5, **SETTINGS)
    result = attack.run(net, x, y, keys=keys)
    assert result.random_steps.tolist() == [1, 1]
    assert (result.outcome == Outcome.ATTACKED).all()
    assert not torch.equal(result.x_adv[0], result.x_adv[1])  # same image, other key
    assert torch.equal(result.x_adv, attack.run(net, x, y, keys=keys).x_adv)


def test_stuck_examples_may_stay() -> None:
    """As in RAR's code: the attack has no gradient at the start, so it never moves, and the map counts as unmoved."""
    net, x = tiny_net(), tiny_images(3)
    x[:2] = 0
    x[:2, :, 2:4, 2:4] = 0.7  # fewer bright pixels than k, as above
    y, keys = net(x).argmax(1), torch.arange(3)
    staying = hf.recipes.ifia(step_size=0.03, ig_steps=5, stuck="stay", **SETTINGS).run(net, x, y, keys=keys)
    assert staying.outcome.tolist() == [Outcome.UNMOVED, Outcome.UNMOVED, Outcome.ATTACKED]
    assert torch.equal(staying.x_adv[:2], x[:2])
    assert staying.scores.kendall[:2].tolist() == staying.scores.top_k[:2].tolist() == [1, 1]
    assert staying.random_steps.tolist() == [0, 0, 0]
    other = hf.recipes.ifia(step_size=0.03, ig_steps=5, **SETTINGS).run(net, x, y, keys=keys)
    assert torch.equal(staying.x_adv[2], other.x_adv[2])  # an example with a gradient is attacked as before


def test_a_network_without_any_gradient() -> None:
    net = tiny_net()
    with torch.no_grad():
        net.last.weight.zero_()
    x, y, keys = tiny_images(2), net(tiny_images(2)).argmax(1), torch.arange(2)
    settings = {"ball": hf.Linf(0.1), "steps": 3, "step_size": 0.05, "best_by": hf.LAST}
    stay, random = (
        hf.PGD(CrossEntropy(), stuck=stuck, **settings).run(net, x, y, keys=keys) for stuck in ("stay", "random")
    )
    assert torch.equal(stay.x_adv, x)
    assert random.random_steps.tolist() == [3, 3]
    assert (random.x_adv != x).all()


def test_stuck_settings() -> None:
    with pytest.raises(hf.InputError, match="stuck = 'random' or 'stay'"):
        hf.recipes.ifia(step_size=0.03, stuck="jump", **SETTINGS)
    with pytest.raises(hf.InputError, match="the search would never move"):
        hf.recipes.ifia(step_size=0.03, kind="random", stuck="stay", **SETTINGS)
    settings = hf.recipes.AttackSettings(eps=0.1, steps=3, k=5, ig_steps=3, stuck="stay")
    attacks = hf.recipes.make_attacks(settings, ["ifia-topk", "ifia-cosine", "random"])
    assert [attack.pgd.stuck for attack in attacks.values()] == ["stay", "stay", "random"]
    assert hf.attacks.random_control(attacks["ifia-topk"]).pgd.stuck == "random"
    config = make_config("mnist/erar", overrides=[("evaluate.ifia.stuck", "stay")])
    protocol = protocol_of(config, MeasureOptions())
    assert protocol.attacks["ifia-topk"].pgd.stuck == "stay"
    assert protocol.attacks["random"].pgd.stuck == "random"


def test_rounding_to_grey_levels() -> None:
    net, x = tiny_net(), (tiny_images(6) * 255).round() / 255
    y = net(x).argmax(1)
    attack = hf.recipes.ifia(eps=8 / 255, step_size=1 / 255, steps=10, k=9, ig_steps=3, quantize=True)
    levels = attack(net, x, y, keys=torch.arange(6)) * 255
    torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-9)
    assert (levels - x * 255).abs().max() <= 8 + 1e-9
    assert (levels - x * 255).abs().max() > 5


def test_repeats_without_randomness_are_refused() -> None:
    attack = hf.recipes.ifia(step_size=0.03, ig_steps=5, **SETTINGS)
    with pytest.raises(hf.InputError, match="same search"):
        replace(attack.pgd, restarts=3)
