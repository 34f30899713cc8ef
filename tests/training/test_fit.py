"""What `fit` does besides surviving: learns, logs, validates, keeps the best, and leaves the world as found."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tests.training.stand_in import StandIn, digits, dropout_net, plain_net, same_weights, train
from torch import nn

from holdfast import rng
from holdfast.errors import InputError
from holdfast.training import SGD, Adam, Best, Piecewise, fit, load_weights, read_log
from holdfast.training.progress import ProgressLine


def accuracy(model: nn.Module) -> dict[str, float]:
    x, y, _ = digits(batch_size=100).batch(0)
    return {"accuracy": float((model(x).argmax(1) == y).float().mean())}


def test_it_learns() -> None:
    objective, result = train(net=plain_net, steps=60, log_every=20)
    assert accuracy(objective.model)["accuracy"] > 0.9
    assert result.example_passes == objective.example_passes
    assert result.parts["total"] < 1.0


def test_it_is_the_plain_loop() -> None:
    """The same as ten lines of PyTorch."""
    found, _ = train(
        net=plain_net, settings=SGD(lr=0.1, weight_decay=1e-2), schedule=Piecewise(boundaries=(2,), values=(0.1, 0.3))
    )
    plain, loader = StandIn(plain_net()), digits()
    optimizer = SGD(lr=0.1, weight_decay=1e-2)(plain.model)
    for step in range(6):
        x, y, ids = loader.batch(step)
        plain.budget = min(1.0, step / 3)
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 0.1 if step < 2 else 0.3
        optimizer.zero_grad()
        plain(x, y, rng.make_keys(5, ids, stream=step // len(loader))).total.backward()
        optimizer.step()
    assert same_weights(found, plain)


@pytest.mark.parametrize("batch_norm", ["update", "fixed"])
def test_statistics_of_batch_norm_are_updated_or_fixed(batch_norm: str) -> None:
    objective = StandIn(dropout_net())
    norm = next(layer for layer in objective.modules() if isinstance(layer, nn.BatchNorm1d))
    torch.nn.init.constant_(norm.running_mean, 0.25)
    modes: list[tuple[bool, bool]] = []
    objective.at_step = lambda one: modes.append((norm.training, one.model[1][3].training))
    before, scale = norm.running_mean.clone(), norm.weight.detach().clone()
    fit(objective, digits(), SGD(lr=0.1)(objective.model), steps=3, batch_norm=batch_norm, progress=False)
    assert modes == [(batch_norm == "update", True)] * 3  # dropout is on in both
    assert torch.equal(norm.running_mean, before) == (batch_norm == "fixed")
    assert not torch.equal(norm.weight, scale)  # its weights are trained
    assert norm.training


def test_batch_norm_is_updated_or_fixed_and_nothing_else() -> None:
    with pytest.raises(InputError, match="expected batch_norm 'update' or 'fixed', got 'freeze'"):
        train(net=dropout_net, batch_norm="freeze")


def test_log_lines(tmp_path: Path) -> None:
    schedule = Piecewise(boundaries=(3,), values=(0.1, 0.2))
    train(tmp_path, steps=8, log_every=3, schedule=schedule)
    log = read_log(tmp_path / "log.jsonl")
    assert [record["step"] for record in log] == [3, 6, 8]
    assert [record["lr"] for record in log] == [0.1, 0.2, 0.2]
    assert [record["budget"] for record in log] == [0.5, 1.0, 1.0]
    assert [record["example_passes"] for record in log] == [48, 96, 116]  # the seventh batch has 4 images
    assert set(log[0]) == {"step", "seconds", "lr", "budget", "parts", "example_passes"}
    assert set(log[0]["parts"]) == {"total", "accuracy_perturbed", "accuracy_clean"}


def test_parts_that_are_not_finite_become_null(tmp_path: Path) -> None:
    class Odd(StandIn):
        def forward(self, x, y, keys):
            output = super().forward(x, y, keys)
            return type(output)(output.total, {**output.parts, "share": torch.tensor(float("nan"))})

    objective = Odd(plain_net())
    fit(objective, digits(), SGD(lr=0.1)(objective.model), steps=2, log_every=1, run_dir=tmp_path, progress=False)
    assert read_log(tmp_path / "log.jsonl")[0]["parts"]["share"] is None


def test_the_best_is_kept_beside_the_last(tmp_path: Path) -> None:
    script = iter([0.2, 0.9, float("nan"), 0.3])
    seen = []

    def validate(model: nn.Module) -> dict[str, float]:
        assert not model.training
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"score": next(script)}

    objective, result = train(tmp_path, steps=8, validate=validate, validate_every=2, keep_best_by="score")
    assert result.best == Best(4, "score", 0.9)
    best, last = load_weights(tmp_path), load_weights(tmp_path, "last")
    assert all(torch.equal(best[name], seen[1][name]) for name in best)
    assert all(torch.equal(last[name], value) for name, value in objective.model.state_dict().items())
    assert (tmp_path / "weights.safetensors").read_bytes() == (
        tmp_path / "checkpoints" / "best-00000004" / "weights.safetensors"
    ).read_bytes()
    assert [record.get("validation") for record in read_log(tmp_path / "log.jsonl")][1::2] == [
        {"score": 0.2},
        {"score": 0.9},
        {"score": None},
        {"score": 0.3},
    ]


def test_smaller_is_better_with_a_minus(tmp_path: Path) -> None:
    _, result = train(tmp_path, keep_best_by="-total")
    totals = [record["parts"]["total"] for record in read_log(tmp_path / "log.jsonl")]
    assert result.best is not None
    assert result.best.value == min(totals)


def test_best_by_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="accuracy_perturbed, total, got 'acuracy'"):
        train(tmp_path, keep_best_by="acuracy")


def test_checkpoints_by_the_clock(tmp_path: Path) -> None:
    train(tmp_path, checkpoint_every=None, checkpoint_seconds=1e-9)
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {"step-00000005", "step-00000006"}


def test_the_world_is_left_as_found() -> None:
    objective = StandIn(dropout_net())
    objective.model[1][1].eval()
    modes = [module.training for module in objective.modules()]
    state = torch.get_rng_state()
    fit(objective, digits(), Adam(lr=0.01)(objective.model), steps=2, warm_up=1.0, progress=False)
    assert objective.budget == 1.0
    assert [module.training for module in objective.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in objective.parameters())


def test_dropout_does_not_depend_on_the_global_seed() -> None:
    def at_step(objective: StandIn) -> None:
        torch.rand(int(objective.calls) + 1)

    one, _ = train(net=dropout_net)
    torch.manual_seed(99)
    other, _ = train(net=dropout_net, validate=lambda model: {"x": float(torch.rand(1))}, validate_every=2)
    assert same_weights(one, other)
    assert not same_weights(one, train(net=dropout_net, at_step=at_step)[0])  # the test can tell


def test_clipping_by_hand() -> None:
    free, clipped = StandIn(plain_net()), StandIn(plain_net())
    start = [p.detach().clone() for p in free.parameters()]
    for objective, limit in ((free, None), (clipped, 1e-3)):
        optimizer = SGD(lr=1.0, momentum=0.0)(objective.model)
        fit(objective, digits(), optimizer, steps=1, max_grad_norm=limit, progress=False)
    moved = [
        torch.cat([(p - s).flatten() for p, s in zip(o.parameters(), start, strict=True)]) for o in (free, clipped)
    ]
    assert moved[1].norm().item() == pytest.approx(1e-3, rel=1e-3)
    assert torch.nn.functional.cosine_similarity(moved[0], moved[1], dim=0).item() == pytest.approx(1.0, abs=1e-4)


def test_tensorboard_file_is_written(tmp_path: Path) -> None:
    train(tmp_path, tensorboard=True)
    (path,) = (tmp_path / "tensorboard").iterdir()
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    tags = {value.tag for event in EventFileLoader(str(path)).Load() for value in event.summary.value}
    assert {"parts/total", "parts/accuracy_perturbed", "lr", "budget", "example_passes"} <= tags


def test_no_tensorboard_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="pip install"):
        train(tmp_path, tensorboard=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_only_on_a_terminal(terminal: bool) -> None:
    text = io.StringIO()
    line = ProgressLine(steps=10, console=Console(file=text, force_terminal=terminal, width=120))
    line.advance(4)
    line.show({"total": 0.5, "accuracy_clean": 0.931, "share": None})
    line.close()
    shown = text.getvalue()
    assert bool(shown) is terminal
    assert not terminal or all(word in shown for word in ("4/10", "total 0.5", "accuracy_clean 93.1%", "share -"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"warm_up": 1.5}, "warm_up"),
        ({"log_every": 0}, "log_every"),
        ({"max_grad_norm": -1.0}, "max_grad_norm"),
        ({"validate_every": 3}, "together"),
        ({"resume": True}, "run_dir with resume"),
        ({"tensorboard": True}, "run_dir with tensorboard"),
        ({"keep_best_by": "total"}, "run_dir with keep_best_by"),
        ({"amp": True}, "GPU"),
    ],
)
def test_bad_arguments_are_refused(options: dict, named: str) -> None:
    with pytest.raises(InputError, match=f"expected.*{named}"):
        train(**options)


def test_a_loader_for_other_processes_is_refused() -> None:
    with pytest.raises(InputError, match="process 0 of 1"):
        train(loader=digits(rank=1, world_size=2))


def test_another_models_optimizer_is_refused() -> None:
    with pytest.raises(InputError, match=r"build it from objective.model"):
        fit(StandIn(plain_net()), digits(), SGD(lr=0.1)(plain_net()), steps=1)


def test_an_objective_without_a_model_is_refused() -> None:
    objective = StandIn(plain_net())
    objective.net = objective.__dict__["_modules"].pop("model")
    with pytest.raises(InputError, match="submodule called model, got net"):
        fit(objective, digits(), SGD(lr=0.1)(objective.net), steps=1)


def test_an_objective_that_is_no_module_is_refused() -> None:
    with pytest.raises(InputError, match=r"torch.nn.Module, got function"):
        fit(lambda x, y, keys: None, digits(), SGD(lr=0.1)(plain_net()), steps=1)
