"""Bad numbers stop the run before they reach the weights."""

from pathlib import Path

import pytest
import torch
from tests.training.stand_in import StandIn, digits, plain_net, same_weights, train

from holdfast.errors import InputError
from holdfast.training import SGD, DivergedError, read_log
from holdfast.training.guards import LossGuard


def poison(calls: int, value: float):
    """Make the bias of the last layer, and so the loss, useless in one step, without the optimiser's help."""

    def at_step(objective: StandIn) -> None:
        if objective.calls == calls:
            with torch.no_grad():
                objective.model[-1].bias[0] = value

    return at_step


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, value: float) -> None:
    with pytest.raises(DivergedError, match=r"loss became nan at step 4 \(total = nan.*step-00000002 \(2 steps\)"):
        train(tmp_path, net=plain_net, at_step=poison(3, value))
    assert [record["step"] for record in read_log(tmp_path / "log.jsonl")] == [1, 2, 3]
    resumed, _ = train(tmp_path, net=plain_net, resume=True)
    whole, _ = train(net=plain_net)
    assert same_weights(whole, resumed)


class BadGradient(StandIn):
    """A finite loss with the gradient of a square root at zero."""

    def forward(self, x, y, keys):
        output = super().forward(x, y, keys)
        if self.calls == 3:
            total = output.total + (self.model[-1].bias * 0).abs().sqrt().sum()
            return type(output)(total, output.parts)
        return output


def test_a_bad_gradient_does_not_reach_the_weights() -> None:
    from holdfast.training import fit

    objective = BadGradient(plain_net())
    with pytest.raises(DivergedError, match=r"gradient became nan at step 3.*none, since the run has no run_dir"):
        fit(objective, digits(), SGD(lr=0.1)(objective.model), steps=5, seed=5, progress=False)
    good = StandIn(plain_net())
    fit(good, digits(), SGD(lr=0.1)(good.model), steps=2, seed=5, progress=False)
    assert all(torch.equal(p, q) for p, q in zip(objective.model.parameters(), good.model.parameters(), strict=True))


def test_an_exploding_loss_stops_the_run() -> None:
    with pytest.raises(DivergedError, match=r"loss exploded to \S+ \(median of the previous steps: .* at step 31"):
        train(net=plain_net, steps=40, at_step=poison(30, 1e4))


def test_the_guard_remembers_over_a_resume(tmp_path: Path) -> None:
    train(tmp_path, net=plain_net, steps=30, warm_up=0.0)
    with pytest.raises(DivergedError, match="exploded"):
        train(tmp_path, net=plain_net, steps=40, warm_up=0.0, resume=True, at_step=poison(31, 1e4))


def test_the_guard_by_hand() -> None:
    guard = LossGuard(10.0)
    assert not any(guard.complaint(value, 1.0) for value in [1e3] + [0.1] * 19)  # a start may be wild
    assert not guard.complaint(9.9, 1.0)  # ten times a small loss is still small
    assert "exploded" in guard.complaint(10.1, 1.0)
    assert "exploded" in guard.complaint(-10.1, 1.0)
    assert "nan" in guard.complaint(float("nan"), 1.0)
    assert "gradient" in guard.complaint(0.1, float("inf"))
    larger = LossGuard(10.0, [5.0] * 50)
    assert not larger.complaint(49.0, 1.0)
    assert "exploded" in larger.complaint(51.0, 1.0)
    with pytest.raises(InputError, match="factor > 1"):
        LossGuard(1.0)


def test_parameters_without_a_gradient_are_named() -> None:
    def net() -> torch.nn.Module:
        model = plain_net()
        model.spare = torch.nn.Linear(2, 2)
        model.forward = lambda x: model[3](model[2](model[1](model[0](x))))
        return model

    with pytest.raises(InputError, match=r"none for model.spare.weight, model.spare.bias; freeze them"):
        train(net=net)

    def frozen() -> torch.nn.Module:
        model = net()
        model.spare.requires_grad_(False)
        return model

    assert train(net=frozen)[1].step == 6
