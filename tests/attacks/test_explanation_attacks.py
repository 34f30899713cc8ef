"""Explanation attacks do damage, on every map and every kind of network, and the strong attack is the stronger."""

from dataclasses import replace

import pytest
import torch
from tests.nets import AttentionNet, AwkwardReLUs, BatchNormNet
from tests.oracles import tiny_net
from tests.trained import digits, trained
from torch import nn

import holdfast as hf
from holdfast.attacks import Ensemble, Manipulation, Outcome, diagnose, random_control
from holdfast.attacks.diagnostics import Diagnosis
from holdfast.attribution import map_of

KEYS = hf.make_keys(0, torch.arange(24))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return trained("digits-cnn", 8)


@pytest.fixture(scope="module")
def batch() -> tuple:
    return tuple(part[:24] for part in digits("test"))


def ifia(**changes) -> hf.attacks.ExplanationAttack:
    return hf.recipes.ifia(**({"eps": 0.15, "step_size": 0.03, "steps": 10, "k": 12, "ig_steps": 10} | changes))


def median(result, metric: str = "kendall") -> float:
    return float(getattr(result.scores, metric).nanmedian())


@pytest.mark.parametrize(
    ("kind", "metric", "sign", "margin"),
    [
        ("topk", "top_k", 1, 0.08),
        ("soft-topk", "top_k", 1, 0.08),
        ("cosine", "cosine", 1, 0.03),
        ("cosine", "kendall", 1, 0.03),
        ("center", "center_shift", -1, 0.2),
    ],
)
def test_every_kind_beats_the_random_control_at_what_it_attacks(
    model: nn.Module, batch: tuple, kind: str, metric: str, sign: int, margin: float
) -> None:
    # judged at the last iterate: the best by Kendall is another matter, and noise alone breaks many ties of digits
    attack = ifia(kind=kind)
    attack = replace(attack, pgd=replace(attack.pgd, best_by=hf.LAST))
    ours, noise = (median(a.run(model, *batch, keys=KEYS), metric) for a in (attack, random_control(attack)))
    assert sign * (noise - ours) > margin


def test_top_k_attack_empties_the_top_k(model: nn.Module, batch: tuple) -> None:
    result = ifia().run(model, *batch, keys=KEYS)
    assert median(result, "top_k") < 0.8
    assert median(result, "top_k") < median(ifia(kind="random").run(model, *batch, keys=KEYS), "top_k")


def test_center_attack_moves_the_centre_most(model: nn.Module, batch: tuple) -> None:
    moved = {
        kind: median(ifia(kind=kind).run(model, *batch, keys=KEYS), "center_shift") for kind in ("center", "random")
    }
    assert moved["center"] > 1.5 * moved["random"]


def test_target_attack_gathers_mass_where_it_is_told(model: nn.Module, batch: tuple) -> None:
    target = torch.zeros(8, 8)
    target[:3, :3] = 1.0
    x, y = batch
    attack = ifia(kind="target", target=target, k=9)
    mass = [
        float(map_of(model, v, y, attack.attribution)[:, :3, :3].sum((1, 2)).mean())
        for v in (x, attack(model, x, y, keys=KEYS))
    ]
    assert mass[1] > 1.3 * mass[0]


def test_a_target_for_each_image_survives_misclassified_ones(model: nn.Module, batch: tuple) -> None:
    x, y = batch[0][:6], batch[1][:6].clone()
    y[2] = (y[2] + 1) % 10
    targets = torch.rand(6, 8, 8)
    attack = ifia(kind="target", target=targets, k=9, steps=3)
    whole = attack.run(model, x, y, keys=KEYS[:6])
    assert whole.counts["misclassified"] >= 1
    alone = ifia(kind="target", target=targets[4:5], k=9, steps=3).run(model, x[4:5], y[4:5], keys=KEYS[4:5])
    torch.testing.assert_close(whole.x_adv[4:5], alone.x_adv, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "attribution",
    [
        hf.Gradient(),
        hf.InputXGradient(),
        hf.SmoothGrad(samples=4),
        hf.IntegratedGradients(steps=4, score=hf.true_probability),
    ],
    ids=lambda a: type(a).__name__,
)
def test_every_map_can_be_attacked(model: nn.Module, batch: tuple, attribution) -> None:
    attack = ifia(attribution=attribution, steps=6)
    result = attack.run(model, *batch, keys=KEYS)
    assert result.counts["attacked"] >= 18
    assert median(result) < median(random_control(attack).run(model, *batch, keys=KEYS))


class Smooth(nn.Module):
    """GELU and SiLU: nothing for the twin to swap."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(36, 16), nn.GELU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.mark.parametrize("build", [BatchNormNet, AwkwardReLUs, AttentionNet, Smooth])
def test_every_network_can_be_attacked(build: type[nn.Module]) -> None:
    torch.manual_seed(1)
    net = build()
    size = 4 if build is AwkwardReLUs else 6
    x = torch.rand(12, 1, size, size)
    with hf.models.evaluating(net):
        y = net(x).argmax(1)
    attack = hf.recipes.ifia(eps=0.2, step_size=0.05, steps=8, k=5, ig_steps=4)
    result = attack.run(net, x, y, keys=torch.arange(12))
    control = random_control(attack).run(net, x, y, keys=torch.arange(12))
    assert result.counts["attacked"] >= 10
    assert median(result) < median(control)


def test_ensemble_takes_the_worst_of_its_members(model: nn.Module, batch: tuple) -> None:
    ensemble = hf.recipes.ifia_ensemble(eps=0.15, k=12, steps=6, ig_steps=5)
    assert len(ensemble.members) == 8
    result = ensemble.run(model, *batch, keys=KEYS)
    tried = result.outcome != Outcome.MISCLASSIFIED
    kendall = torch.stack([m.scores.kendall for m in result.members])[:, tried]
    assert torch.equal(result.scores.kendall[tried], kendall.amin(0))
    assert sum(result.wins.values()) == int((result.outcome == Outcome.ATTACKED).sum())
    assert max(result.wins.values()) < int(tried.sum())  # no member alone is the ensemble
    assert (result.worst.top_k[tried] <= result.scores.top_k[tried]).all()
    for i in tried.nonzero().flatten()[:4].tolist():
        winner = result.members[int(result.winner[i])]
        assert torch.equal(result.x_adv[i], winner.x_adv[i])


def test_a_failed_member_never_wins(model: nn.Module, batch: tuple) -> None:
    members = {"nothing": ifia(eps=0.0), "something": ifia(steps=3)}
    result = Ensemble(members=members).run(model, *batch, keys=KEYS)
    assert result.wins["nothing"] == 0
    assert result.counts["attacked"] == result.wins["something"]


def test_manipulation_reaches_a_target_map_and_keeps_the_output(model: nn.Module, batch: tuple) -> None:
    x, y = (part[:4] for part in batch)
    ig = hf.IntegratedGradients(steps=5, score=hf.true_probability)
    target = map_of(model, batch[0][8:12], y, ig)
    # maps of 64 pixels are less spread than those of photographs, so the output needs relatively more weight
    attack = Manipulation(target=target, steps=60, learning_rate=5e-3, map_weight=50, output_weight=1, attribution=ig)
    x_adv = attack(model, x, y)
    goal = target.flatten(1) / target.flatten(1).sum(1, keepdim=True)

    def distance(v: torch.Tensor) -> torch.Tensor:
        shown = map_of(model, v, y, ig).flatten(1)
        return (shown / shown.sum(1, keepdim=True) - goal).square().sum(1)

    assert (distance(x_adv) < 0.75 * distance(x)).all()
    assert distance(x_adv).mean() < 0.6 * distance(x).mean()
    assert torch.equal(model(x_adv).argmax(1), model(x).argmax(1))
    assert x_adv.min() >= 0
    assert x_adv.max() <= 1
    alone = replace(attack, target=target[:1])(model, x[:1], y[:1])
    torch.testing.assert_close(alone, x_adv[:1], rtol=0, atol=1e-3)


def test_manipulation_sharpens_geometrically() -> None:
    attack = Manipulation(target=torch.ones(2, 2), steps=3)
    assert [attack._beta(i) for i in range(3)] == pytest.approx([10, 10**1.5, 100])


def test_diagnosis_of_a_sound_attack_is_quiet(model: nn.Module, batch: tuple) -> None:
    diagnosis = diagnose(ifia(steps=40, step_size=0.01, beta=10.0, kind="cosine"), model, *batch, keys=KEYS)
    assert diagnosis.warnings == ()
    assert diagnosis.surrogate_agreement > 0.8
    assert diagnosis.gain_over_noise > 0.05


def test_diagnosis_sees_each_kind_of_blindness(model: nn.Module, batch: tuple) -> None:
    def warnings(attack) -> str:
        x, y = batch
        return " ".join(diagnose(attack, model, x[:16], y[:16], keys=KEYS[:16]).warnings)

    assert "too few steps" in warnings(ifia(steps=2, step_size=0.01))
    assert "random signs" in warnings(ifia(kind="random"))
    assert "taken at random" in warnings(ifia(kind="random"))


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (-0.149, "weaker than noise: its median Kendall's tau is 0.149 above"),
        (-0.0001, "no stronger than noise"),
        (0.0001, "no stronger than noise"),
        (0.01, "by only 0.010 more than random signs"),
    ],
)
def test_diagnosis_says_how_the_attack_compares_with_noise(gain: float, words: str) -> None:
    sound = {"zero_gradients": 0.0, "surrogate_agreement": 1.0, "doubling_gain": 0.0}
    (warning,) = Diagnosis(**sound, gain_over_noise=gain).warnings
    assert words in warning
    assert "-0" not in warning
    assert Diagnosis(**sound, gain_over_noise=0.02).warnings == ()


class Thresholds(nn.Module):
    """The upper half counts only above 0.95, but then a hundredfold: a soft twin lets it through at any brightness."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        upper, lower = x.flatten(1).chunk(2, dim=1)
        evidence = (100 * torch.relu(upper - 0.95) + torch.relu(lower)) @ torch.linspace(1, 2, upper.shape[1])
        return torch.stack([evidence, -evidence], dim=1)


def test_diagnosis_sees_a_surrogate_that_has_little_to_do_with_the_network() -> None:
    x = 0.9 * torch.rand(8, 1, 6, 6)
    diagnosis = diagnose(ifia(steps=2), Thresholds(), x, torch.zeros(8, dtype=torch.int64), keys=KEYS[:8])
    assert diagnosis.surrogate_agreement < 0.3
    assert any("surrogate" in warning for warning in diagnosis.warnings)


def test_blind_steps_are_warned_of_by_the_result_itself() -> None:
    # half of the images are flat for the attack at the start: one random step of two
    net = tiny_net()
    x = torch.zeros(4, 1, 6, 6).double()
    x[:, :, 2:4, 2:4] = 0.7
    attack = hf.recipes.ifia(eps=0.1, step_size=0.05, steps=2, k=9, ig_steps=2)
    result = attack.run(net, x, net(x).argmax(1), keys=torch.arange(4))
    assert any("taken at random" in warning for warning in result.warnings)


def test_result_without_trouble_carries_no_warning() -> None:
    net, x = tiny_net(), torch.rand(2, 1, 6, 6).double()
    result = hf.recipes.ifia(eps=0.1, step_size=0.05, steps=2, k=5, ig_steps=2).run(
        net, x, net(x).argmax(1), keys=KEYS[:2]
    )
    assert result.warnings == ()
