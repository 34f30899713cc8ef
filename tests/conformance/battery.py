"""The checks that every registered part has to pass. `test_registries.py` runs them over the registries; the tests of
the doors run them on parts of their own."""

import math
from collections.abc import Callable
from typing import Any

import torch
from tests.nets import AwkwardReLUs
from tests.oracles import tiny_images, tiny_net
from torch import Tensor, nn

import holdfast as hf
from holdfast.attacks import ExplanationAttack, Outcome
from holdfast.attribution import GradientMap
from holdfast.engine.passes import count_passes
from holdfast.losses import Loss
from holdfast.metrics import METRICS, Metric
from holdfast.types import Attribution


def check_metric(metric: Metric) -> None:
    """Bounds, no change, swapped maps, chance, one value per example, and NaN for maps that cannot be ranked."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.rand(6, 5, 4, generator=generator) for _ in range(2))
    value = metric(a, b, k=5)
    low, high = metric.range
    assert value.dtype == torch.float64
    assert value.shape == (6,)
    assert ((value >= low) & (value <= high)).all()
    assert metric.best in metric.range
    torch.testing.assert_close(metric(a, a, k=5), torch.full((6,), metric.best, dtype=torch.float64))
    partner = METRICS[metric.swapped] if metric.swapped else metric
    torch.testing.assert_close(partner(b, a, k=5), value)
    expected = metric.by_chance(5, 4, k=5)
    if expected is not None:
        many = torch.rand(2, 4000, 5, 4, generator=generator)
        error = float(metric(*many, k=5).std()) / 4000**0.5
        assert abs(float(metric(*many, k=5).mean()) - expected) < 5 * error
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    torch.testing.assert_close(metric(a[order], b[order], k=5), value[order])
    torch.testing.assert_close(metric(a[:1], b[:1], k=5), value[:1])
    assert metric.worst(value.tolist()) == (max if metric.is_distance else min)(value.tolist())
    broken = a.clone()
    broken[0], broken[1, 0, 0] = 0, math.nan
    found = metric(broken, b, k=5)
    assert found[:2].isnan().all(), "a map without mass, or with NaN, has no score"
    assert not found[2:].isnan().any()


def check_map(make: Callable[..., Attribution]) -> None:
    """Shape, one map per example, differentiable twice, invariant to batch and chunk, and the cost that it declares."""
    net, x = AwkwardReLUs().double().requires_grad_(False), tiny_images(3)[:, :, :4, :4]
    y, attribution = torch.tensor([0, 2, 1]), make()
    found = attribution(net, x, y)
    assert found.shape == x.shape
    assert not found.requires_grad
    torch.testing.assert_close(attribution(net, x[1:2], y[1:2]), found[1:2])
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(attribution(net, x[order], y[order]), found[order])
    torch.testing.assert_close(make(chunk=2)(net, x, y), found)
    with hf.softplus_surrogate(beta=2.0):
        point = x[:1].clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda v: attribution(net, v, y[:1], create_graph=True), point, fast_mode=True)
    if isinstance(attribution, GradientMap):
        with count_passes() as counter:
            attribution(net, x, y)
        assert counter.passes == len(x) * attribution.points * 2  # forward and backward


def check_loss(loss: Loss, *, smooth: bool = True) -> None:
    """One number per example, invariant to batch and chunk, and exact gradients in image and weights."""
    torch.manual_seed(3)
    net = AwkwardReLUs().double()
    x, x_adv = (torch.rand(3, 1, 4, 4).double() for _ in range(2))
    y = torch.tensor([0, 2, 1])
    with torch.no_grad():
        value = loss(net, hf.Pair(x, x_adv, y))
        assert value.shape == (3,)
        for row in range(3):
            rows = torch.tensor([row])
            alone = loss.for_rows(rows)(net, hf.Pair(x[rows], x_adv[rows], y[rows]))
            torch.testing.assert_close(alone, value[rows])
    if not smooth:
        return
    with hf.softplus_surrogate(beta=3.0):
        start = x_adv[:2].clone().requires_grad_()
        some = loss.for_rows(torch.arange(2))
        frozen = net.requires_grad_(False)
        if some(frozen, hf.Pair(x[:2], start, y[:2])).requires_grad:
            assert torch.autograd.gradcheck(lambda v: some(frozen, hf.Pair(x[:2], v, y[:2])), start, fast_mode=True)
        net.requires_grad_(True)
        names = [name for name, _ in net.named_parameters()]

        def of_weights(*values: Tensor) -> Tensor:
            called = _Called(net, dict(zip(names, values, strict=True)))
            return some(called, hf.Pair(x[:2], x_adv[:2], y[:2]))

        assert torch.autograd.gradcheck(of_weights, tuple(net.parameters()), fast_mode=True)


class _Called(nn.Module):
    """A network with some of its parameters replaced, which losses of the weights can look into."""

    def __init__(self, net: nn.Module, values: dict[str, Tensor]) -> None:
        super().__init__()
        self.values = values
        self.net = net
        for name, value in values.items():
            module, _, leaf = name.rpartition(".")
            owner = net.get_submodule(module)
            owner._parameters.pop(leaf, None)
            if isinstance(value, nn.Parameter):
                owner.register_parameter(leaf, value)
            else:
                setattr(owner, leaf, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def check_attack(attack: ExplanationAttack, *, net: nn.Module | None = None) -> None:
    """Inside ball and bounds, label kept where it succeeded, scores for the rest, and nothing touched."""
    net = net or tiny_net()
    x = (tiny_images(6) * 255).round() / 255
    y = net(x).argmax(1)
    y[5] = (y[5] + 1) % 3  # one wrong prediction
    keys = hf.make_keys(0, torch.arange(6))
    before, state = x.clone(), {name: value.clone() for name, value in net.state_dict().items()}
    result = attack.run(net, x, y, keys=keys)
    assert torch.equal(x, before)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert result.outcome[5] == Outcome.MISCLASSIFIED
    assert result.x_adv.shape == x.shape
    assert not result.x_adv.requires_grad
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 1
    if isinstance(attack.ball, hf.Linf):
        assert float((result.x_adv - x).abs().max()) <= attack.ball.eps + 1e-9
    succeeded = result.outcome == Outcome.ATTACKED
    assert torch.equal(net(result.x_adv[succeeded]).argmax(1), y[succeeded])
    assert torch.equal(result.x_adv[~succeeded], x[~succeeded])
    for name, metric in METRICS.items():
        scores = result.reported_scores[name]
        assert scores.shape == (6,)
        assert scores[5].isnan(), "a wrong prediction has no score"
        failed = (result.outcome == Outcome.LABEL_LOST) | (result.outcome == Outcome.UNMOVED)
        assert (scores[failed] - metric.best).abs().max() < 1e-9 if bool(failed.any()) else True
    assert len(result.winner_names) == 6
    order = torch.tensor([3, 1, 5, 0, 4, 2])
    again = attack.run(net, x[order], y[order], keys=keys[order])
    torch.testing.assert_close(again.x_adv, result.x_adv[order])
    assert torch.equal(attack(net, x, y, keys=keys), result.x_adv)


def make_loss(kind: type[Loss], given: dict[str, Any]) -> Loss:
    """A loss with small settings: what it requires and what makes it cheap, of the arguments it takes."""
    import inspect

    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in given.items() if name in known})
