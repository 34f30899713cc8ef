"""Hardening: the guard of the accuracy, by hand."""

import pytest
import torch
from tests.experiment.harden_material import FEW
from torch import nn

import holdfast as hf
from holdfast.experiment.hardening.guarded import GuardedObjective


def guarded(**changes: float) -> GuardedObjective:
    net = nn.Linear(2, 2)
    settings = {"accuracy": 0.9, "limit": 0.02, "steps": 100, "every": 10, "warm_up": 30} | changes
    return GuardedObjective(hf.recipes.natural(net), **settings)


def test_the_guard_halves_the_strength_and_keeps_the_last_state_within_the_limit() -> None:
    guard = guarded()
    guard.model.weight.data.fill_(1.0)
    assert guard.look(0.885) == (10, 0.885, 1.0, True)
    guard.model.weight.data.fill_(2.0)
    assert guard.look(0.851) == (20, 0.851, 1.0, False)  # 4.9 points: 5 are tolerated in the warm-up
    assert guard.look(0.851) == (30, 0.851, 1.0, False)
    assert guard.look(0.5) == (40, 0.5, 0.5, False)
    assert guard.look(0.5) == (50, 0.5, 0.25, False)
    assert guard.look(0.895) == (60, 0.895, 0.5, True)  # room again
    guard.model.weight.data.fill_(3.0)
    assert guard.look(0.883) == (70, 0.883, 0.5, True)  # 1.7 points: 2.14 are tolerated here, 1.5 at the end
    for _ in range(3):
        guard.look(0.879)
    assert guard.checks[-1] == (100, 0.879, 0.0625, False)
    assert guard.kept_step == 70
    guard.model.weight.data.fill_(4.0)
    guard.restore_kept()
    assert guard.model.weight.unique().tolist() == [3.0]


def test_the_guard_waits_while_the_accuracy_recovers_but_not_at_the_end() -> None:
    guard = guarded()
    found = [guard.look(accuracy) for accuracy in (0.9, 0.8, 0.81, 0.82, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87)]
    assert [check.strength for check in found] == [1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.0625, 0.03125]
    assert guard.kept_step == 10


def test_strength_mixes_the_loss_with_the_cross_entropy() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    x, y, keys = hf.data.to_float(FEW.x[:8]), FEW.y[:8], torch.arange(8)
    method = hf.recipes.trades(net, eps=0.1, attack_steps=1, step_size=0.1, weight=6.0)
    guard = GuardedObjective(method, accuracy=1.0, limit=0.0, steps=2, every=1, warm_up=0)
    full, plain = method(x, y, keys).total.item(), nn.functional.cross_entropy(net(x), y).item()
    assert guard(x, y, keys).total.item() == pytest.approx(full)
    guard.look(0.0)
    assert guard(x, y, keys).total.item() == pytest.approx((full + plain) / 2)
