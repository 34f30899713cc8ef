"""The objective: what it adds up, what it computes, what it leaves alone."""

import inspect

import pytest
import torch
from tests.oracles import tiny_images, tiny_net
from torch import Tensor, nn

import holdfast as hf
from holdfast import rng
from holdfast.engine.passes import count_passes
from holdfast.losses import CACR, WACR, CrossEntropy, IGNorm
from holdfast.objective.objective import Objective, Term
from holdfast.recipes import METHODS

SETTINGS = {"eps": 0.1, "attack_steps": 2, "step_size": 0.05}
EXTRA = {"art": {"k": 9}, "erar": {"ig_steps": 4, "attack_ig_steps": 2}, "igr": {"ig_steps": 3}}
EXTRA["ig_norm"] = EXTRA["ig_sum_norm"] = EXTRA["erar"]
EXTRA["adv_aat"] = EXTRA["erar"]
EXTRA["erar_plus"] = EXTRA["igr"]
EXTRA["r2et"] = {"k": 9, "curvature_weight": 0.1}
EXTRA["erar_plus_v1"] = EXTRA["erar"] | {"plain_share": 0.5}


def method(name: str, net: nn.Module, **changes) -> Objective:
    known = inspect.signature(METHODS[name]).parameters
    shared = {key: value for key, value in SETTINGS.items() if key in known}
    return METHODS[name](net, **shared | EXTRA.get(name, {}) | changes)


def batch(n: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    return tiny_images(n), torch.arange(n) % 3, hf.make_keys(0, torch.arange(n))


class Counted(nn.Module):
    """Counts the images that go through."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.images = 0

    def forward(self, x: Tensor) -> Tensor:
        self.images += len(x)
        return self.net(x)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reaches_every_parameter(name: str) -> None:
    net = tiny_net()
    output = method(name, net)(*batch())
    assert output.total.isfinite()
    output.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    assert {"total", *output.parts} == set(output.parts)
    assert not any(part.requires_grad for part in output.parts.values())


@pytest.mark.parametrize("name", METHODS)
def test_every_method_falls_when_descended(name: str) -> None:
    net = tiny_net(1)
    objective, optimizer = method(name, net), torch.optim.SGD(net.parameters(), lr=0.02)
    x, y, keys = batch(12)
    first = last = None
    for _ in range(25):
        output = objective(x, y, keys)
        optimizer.zero_grad()
        output.total.backward()
        optimizer.step()
        last = float(output.parts["total"])
        first = last if first is None else first
    assert last < first


def test_erar_is_the_sum_of_its_parts() -> None:
    net = tiny_net()
    objective = method("erar", net, lam=2.0, lam_cacr=0.7)
    x, y, keys = batch()
    parts = {k: float(v) for k, v in objective(x, y, keys).parts.items()}
    total = parts["ce_perturbed"] + 2 * (
        0.7 * (parts["kl_nca"] - parts["kl_tca"]) + parts["wacr_p1"] + parts["wacr_p2"]
    )
    assert parts["total"] == pytest.approx(total)
    # and the parts are those of the losses at the x' that the attack finds
    x_adv = objective.terms[0].attack(net, x, y, keys=keys)
    pair = hf.Pair(x, x_adv, y)
    assert parts["ce_perturbed"] == pytest.approx(CrossEntropy()(net, pair).mean().item())
    assert parts["kl_nca"] - parts["kl_tca"] == pytest.approx(CACR(steps=4)(net, pair).mean().item())
    assert parts["wacr_p1"] + parts["wacr_p2"] == pytest.approx(WACR(steps=4)(net, pair).mean().item())


def test_nothing_is_computed_twice() -> None:
    net = Counted(tiny_net())
    x, y, keys = batch()
    net.scale_invariant = False  # or the probe of this property would be counted too
    hf.models.double_backward.require_second_order(net, x[:1])  # asked once for each network
    net.images = 0
    method("erar", net, attack_steps=0)(x, y, keys).total.backward()
    # 4 points to x', 4 to x, one look at x' for the negative class; the cross-entropy is the end of the first path
    assert net.images == len(x) * (4 + 4 + 1)
    net.images = 0
    method("ig_sum_norm", net, attack_steps=3)(x, y, keys)
    assert net.images == len(x) * (3 * 2 + 4)


def test_trades_looks_at_the_clean_image_once() -> None:
    net = Counted(tiny_net())
    x, y, keys = batch()
    method("trades", net, attack_steps=2)(x, y, keys)
    # the search: clean side, two steps; outside: x and x' once each
    assert net.images == len(x) * (1 + 2 + 2)


def test_parts_of_two_terms_are_both_kept() -> None:
    parts = {k: float(v) for k, v in method("erar_plus_v1", tiny_net())(*batch()).parts.items()}
    total = 0.5 * parts["ce_perturbed"] + 4 * parts["map_cosine"] + 0.5 * parts["plain/ce_perturbed"]
    assert parts["total"] == pytest.approx(total)


def test_erar_plus_by_hand() -> None:
    """TRADES, and the cosines of the centred maps and of their square roots at x and at a keyed point of the ball."""
    net, (x, y, keys) = tiny_net(), batch()
    parts = {k: float(v) for k, v in method("erar_plus", net)(x, y, keys).parts.items()}
    assert parts["total"] == pytest.approx(
        parts["ce_clean"] + 6 * parts["kl_prediction"] + 4 * parts["map/map_cosine"], rel=1e-5
    )
    somewhere = hf.Linf(0.1).sample(rng.combine(keys, 0), x)
    ig = hf.IntegratedGradients(steps=3, score=lambda z, y: z.gather(1, y[:, None])[:, 0] - z.mean(1))
    maps = [hf.saliency_map(ig(net, at, y)).flatten(1) for at in (x, somewhere)]
    flat = [(m + 0.01).sqrt() for m in maps]
    by_hand = sum(
        0.5 * (1 - (one * other).sum(1) / (one.norm(dim=1) * other.norm(dim=1))) for one, other in (maps, flat)
    )
    assert parts["map/map_cosine"] == pytest.approx(float(by_hand.mean()), rel=1e-4)


def test_terms_with_coefficient_zero_cost_nothing() -> None:
    net = Counted(tiny_net())
    net.scale_invariant = False
    x, y, keys = batch()
    hf.models.double_backward.require_second_order(net, x[:1])
    net.images = 0
    method("erar", net, attack_steps=0, lam_wacr=0.0)(x, y, keys)
    assert net.images == len(x) * (4 + 1)
    net.images = 0
    method("erar", net, attack_steps=0, lam_cacr=0.0, lam_wacr=0.0)(x, y, keys)
    assert net.images == len(x)


def test_example_passes() -> None:
    objective = method("ig_sum_norm", tiny_net(), attack_steps=3)
    objective.model.scale_invariant = False
    objective(*batch())
    assert objective.example_passes == 6 * 4 * (3 * 2 + 4)
    objective = method("madry", tiny_net(), attack_steps=3)
    objective(*batch())
    assert objective.example_passes == 6 * 2 * (3 + 1)


def test_meters_nest() -> None:
    with count_passes() as outer:
        objective = method("natural", tiny_net())
        objective(*batch())
    assert outer.passes == objective.example_passes == 12


def test_attack_leaves_no_parameter_gradient() -> None:
    net = tiny_net()
    objective = method("erar", net)
    with torch.no_grad():
        objective(*batch())
    assert all(p.grad is None for p in net.parameters())


def test_budget_scales_the_attack() -> None:
    net = tiny_net()
    x, y, keys = batch()
    objective = method("madry", net)
    objective.budget = 0.0
    assert float(objective(x, y, keys).parts["ce_perturbed"]) == pytest.approx(
        float(method("natural", net)(x, y, keys).parts["ce_clean"])
    )
    values = []
    for objective.budget in (0.0, 0.3, 1.0):
        values.append(float(objective(x, y, keys).parts["ce_perturbed"]))
    assert values == sorted(values)


def test_reductions() -> None:
    net = tiny_net()
    x, y, keys = batch()
    mean, total = (METHODS["madry"](net, **SETTINGS, reduction=r)(x, y, keys).parts["total"] for r in ("mean", "sum"))
    assert float(total) == pytest.approx(len(x) * float(mean))


def test_lga_by_hand() -> None:
    """The gradients of the true logit at x and at a keyed random point of the ball."""
    net, (x, y, keys) = tiny_net(), batch()
    parts = {k: float(v) for k, v in method("lga", net, l2_weight=0.3)(x, y, keys).parts.items()}
    at_x, there = (hf.Gradient()(net, at, y).flatten(1) for at in (x, hf.Linf(0.1).sample(rng.combine(keys, 0), x)))
    distance = (at_x - there).square().sum(1).mean().item()
    cosine = (1 - torch.cosine_similarity(at_x, there)).mean().item() / 2
    assert distance > 0
    assert (parts["gradient_l2"], parts["gradient_cosine"]) == (pytest.approx(distance), pytest.approx(cosine))
    assert parts["total"] == pytest.approx(parts["ce_clean"] + 0.3 * distance + cosine)


def test_adv_aat_searches_for_what_it_minimises() -> None:
    objective = method("adv_aat", tiny_net(), ig_steps=2, weight=0.5)
    (term,) = objective.terms
    assert term.loss == term.attack.loss
    parts = {k: float(v) for k, v in objective(*batch()).parts.items()}
    assert parts["total"] == pytest.approx(parts["ce_perturbed"] + 0.5 * parts["ig_pearson"])


def test_directions_of_the_curvature_are_keyed() -> None:
    net, (x, y, keys) = tiny_net(), batch()
    first, same, other = (
        float(method("curvature", net)(x, y, k).parts["curvature"]) for k in (keys, keys.clone(), keys + 1)
    )
    assert first == same != other


@pytest.mark.parametrize("name", ["erar", "lga", "r2et", "adv_aat", "curvature"])
def test_batch_split_changes_nothing(name: str) -> None:
    net = tiny_net()
    x, y, keys = batch(8)
    objective = method(name, net)
    whole = float(objective(x, y, keys).parts["total"])
    halves = [float(objective(x[rows], y[rows], keys[rows]).parts["total"]) for rows in (slice(0, 4), slice(4, 8))]
    assert whole == pytest.approx(sum(halves) / 2, rel=1e-9)


def test_users_can_compose_their_own() -> None:
    net = tiny_net()
    attack = hf.PGD(CrossEntropy(), ball=hf.L2(0.3), steps=2, step_size=0.1, random_start=True, best_by=hf.LAST)
    objective = Objective(net, [Term(CrossEntropy() + 0.5 * IGNorm(steps=3), attack), Term(CrossEntropy(at="clean"))])
    parts = objective(*batch()).parts
    value = parts["ce_perturbed"] + 0.5 * parts["ig_norm"] + parts["ce_clean"]
    assert float(parts["total"]) == pytest.approx(float(value))


def test_bad_settings() -> None:
    with pytest.raises(hf.InputError, match="at least one term"):
        Objective(tiny_net(), [])
    with pytest.raises(hf.InputError, match="reduction"):
        Objective(tiny_net(), [Term(CrossEntropy())], reduction="median")


def test_keys_can_be_left_out_for_a_first_try() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    objective = hf.recipes.madry(net, eps=0.1, attack_steps=1, step_size=0.01)
    x, y = torch.rand(4, 1, 4, 4), torch.tensor([0, 1, 2, 0])
    first, second = (objective(x, y) for _ in range(2))
    first.total.backward()
    assert not torch.equal(first.total, second.total)  # other noise in every step
    objective.example_passes = 0
    assert torch.equal(objective(x, y).total, first.total)


def test_first_layer_penalties_of_madry_by_hand() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(8, 3))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([2.0, -1.0]).reshape(2, 1, 1, 1))
        net[0].bias.copy_(torch.tensor([0.5, 0.25]))
    x, y, keys = torch.full((2, 1, 2, 2), 0.5), torch.tensor([0, 1]), torch.arange(2)
    settings = {"eps": 0.1, "attack_steps": 1, "step_size": 0.1}
    plain, penalised = (
        hf.recipes.madry(net, **settings, dead_zone=size)(x, y, keys).total.item() for size in (0.0, 3.0)
    )
    # max(0, 0.5 + 0.1 * 2) and max(0, 0.25 + 0.1 * 0), their mean is 0.475
    assert penalised - plain == pytest.approx(3 * 0.475, abs=1e-5)
