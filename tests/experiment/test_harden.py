"""Hardening: the user's own names, types, frozen parts and modes; the guard of the accuracy; resume and Ctrl-C."""

import json
import shlex
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from torch import nn

import holdfast as hf
from holdfast.cli import main
from holdfast.experiment.hardening import job
from holdfast.experiment.hardening.guarded import GuardedObjective
from holdfast.experiment.hardening.images import divide
from holdfast.experiment.hardening.plan import Plan, method_settings
from holdfast.objective import Objective
from holdfast.training import Interrupted

DIGITS = hf.data.load("digits")
FEW = DIGITS.stratified(200, seed=0)
FAST = {"eps": 0.1, "steps": 4, "limit": 4, "passes": 1, "strong": False, "batch_size": 16, "progress": False}
"""Settings of a hardening that takes about a second."""


class Net(nn.Module):
    """Batch norm, dropout and a frozen first layer, as in a user's own fine-tuning."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(4 * 36, 10)
        self.first.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.relu(self.norm(self.first(x))).flatten(1)))


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.Tensor]:
    """Weights of a naturally trained `Net`."""
    torch.manual_seed(0)
    net = hf.Classifier(Net())
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    hf.fit(hf.recipes.natural(net), hf.data.Loader(DIGITS, 50), optimizer, steps=60, progress=False)
    return {name: value.clone() for name, value in net.net.state_dict().items()}


def net_with(weights: dict[str, torch.Tensor]) -> Net:
    net = Net()
    net.load_state_dict(weights)
    return net


def test_frozen_parameters_and_statistics_stay_and_the_rest_moves(trained: dict[str, torch.Tensor]) -> None:
    net = net_with(trained).train()
    net.drop.eval()  # frozen by the user, in a network that is otherwise in training mode
    found = hf.harden(net, FEW, max_accuracy_drop=1.0, **FAST)
    after = net.state_dict()
    fixed = {"first.weight", "first.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert {name for name in trained if torch.equal(trained[name], after[name])} == fixed
    assert (net.training, net.norm.training, net.drop.training) == (True, True, False)
    assert not net.first.weight.requires_grad
    assert net.last.weight.requires_grad
    assert found.kept_step == 4
    assert found.model.net is net


def test_statistics_of_batch_norm_are_updated_if_asked(trained: dict[str, torch.Tensor]) -> None:
    net = net_with(trained).eval()
    hf.harden(net, FEW, max_accuracy_drop=1.0, batch_norm="update", **FAST)
    assert not torch.equal(net.norm.running_mean, trained["norm.running_mean"])
    assert net.norm.num_batches_tracked > trained["norm.num_batches_tracked"]
    assert not net.norm.training


def test_dropout_is_used_in_training(trained: dict[str, torch.Tensor]) -> None:
    nets = [net_with(trained).eval() for _ in range(2)]
    nets[1].drop.p = 0.0
    for net in nets:
        hf.harden(net, FEW, max_accuracy_drop=1.0, **FAST)
    assert not torch.equal(nets[0].last.weight, nets[1].last.weight)


def test_half_precision_comes_back_in_half_precision(trained: dict[str, torch.Tensor], tmp_path: Path) -> None:
    net = net_with(trained).half()
    hf.harden(net, FEW, max_accuracy_drop=1.0, out=tmp_path, **FAST)
    assert {p.dtype for p in net.parameters()} == {torch.float16}
    saved = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert set(saved) == set(trained)
    assert {name: value.dtype for name, value in saved.items()} == {n: v.dtype for n, v in net.state_dict().items()}
    assert all(torch.equal(saved[name], value) for name, value in net.state_dict().items())


def test_the_same_with_an_interruption_as_without(
    trained: dict[str, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = net_with(trained)
    hf.harden(whole, FEW, max_accuracy_drop=0.0, out=tmp_path / "whole", **FAST)

    calls, forward = [], GuardedObjective.forward

    def stopping(self: GuardedObjective, *batch: torch.Tensor) -> object:
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return forward(self, *batch)

    net = net_with(trained)
    monkeypatch.setattr(GuardedObjective, "forward", stopping)
    with pytest.raises(Interrupted, match="after step 2; everything is saved") as stop:
        hf.harden(net, FEW, max_accuracy_drop=0.0, out=tmp_path / "part", **FAST)
    assert stop.value.signal == "SIGINT"
    assert all(torch.equal(value, trained[name]) for name, value in net.state_dict().items())  # as it was

    with pytest.raises(hf.InputError, match=r"which holds a hardening; continue it with resume=True"):
        hf.harden(net, FEW, max_accuracy_drop=0.0, out=tmp_path / "part", **FAST)
    with pytest.raises(hf.InputError, match=r"settings.eps = 0.1, as at the start of the run, got 0.2"):
        hf.harden(net, FEW, max_accuracy_drop=0.0, out=tmp_path / "part", resume=True, **FAST | {"eps": 0.2})
    hf.harden(net, FEW, max_accuracy_drop=0.0, out=tmp_path / "part", resume=True, **FAST)
    assert len(calls) == 4
    for name in ("weights.safetensors", "after/examples.csv", "result.json"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def guarded(**changes: float) -> GuardedObjective:
    net = nn.Linear(2, 2)
    settings = {"accuracy": 0.9, "limit": 0.02, "steps": 100, "every": 10, "warm_up": 30} | changes
    return GuardedObjective(hf.recipes.natural(net), **settings)


def test_the_guard_halves_the_strength_and_keeps_the_last_state_within_the_limit() -> None:
    guard = guarded()
    guard.model.weight.data.fill_(1.0)
    assert guard.look(0.885) == (10, 0.885, 1.0, True)
    guard.model.weight.data.fill_(2.0)
    assert guard.look(0.871) == (20, 0.871, 1.0, False)  # 2.9 points: 3 are tolerated in the warm-up
    assert guard.look(0.871) == (30, 0.871, 1.0, False)
    assert guard.look(0.5) == (40, 0.5, 0.5, False)
    assert guard.look(0.5) == (50, 0.5, 0.25, False)
    assert guard.look(0.895) == (60, 0.895, 0.5, True)  # room again
    guard.model.weight.data.fill_(3.0)
    assert guard.look(0.883) == (70, 0.883, 0.5, True)  # 1.7 points: 1.78 are tolerated here, 1.5 at the end
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


def test_original_weights_if_nothing_is_within_the_limit(trained: dict[str, torch.Tensor], monkeypatch) -> None:
    accuracies = iter([0.9, *[0.1] * 4, 0.9])
    monkeypatch.setattr(job, "accuracy_on", lambda *_: next(accuracies))
    net = net_with(trained)
    found = hf.harden(net, FEW, **FAST)
    assert found.kept_step == 0
    assert all(torch.equal(value, trained[name]) for name, value in net.state_dict().items())
    assert "The network was not changed" in str(found)
    assert "so the weights are the original ones" in str(found)
    assert found.backed_off


def test_held_out_images_are_divided_without_overlap() -> None:
    images = divide(FEW, None, share=0.25, seed=3)
    parts = [set(part.ids.tolist()) for part in (images.train, images.watched, images.audited)]
    assert [len(part) for part in parts] == [150, 25, 25]
    assert set.union(*parts) == set(FEW.ids.tolist())
    with pytest.raises(hf.InputError, match="at least two held-out images"):
        divide(FEW, FEW.subset([0]), share=0.25, seed=3)


def test_settings_of_the_method_follow_from_eps_and_the_image() -> None:
    settings = hf.HardenSettings(eps=0.2, map="gradient", method_settings={"weight": 9.0})
    found = method_settings(settings, (3, 20, 10))
    assert (found["eps"], found["step_size"], found["map"], found["weight"]) == (0.2, 0.1, "gradient", 9.0)
    assert method_settings(hf.HardenSettings(method="r2et"), (3, 20, 10)) == {"k": 20}
    with pytest.raises(hf.InputError, match=r"settings of trades among eps, .* got lam"):
        method_settings(hf.HardenSettings(method="trades", method_settings={"lam": 1}), (1, 8, 8))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"eps": 8}, "did you mean 8/255"),
        ({"method": "best"}, "method to be one of natural, madry"),
        ({"map": "lime"}, "map to be one of ig"),
        ({"max_accuracy_drop": 2}, "0.02 means two points"),
        ({"minutes": 0}, "minutes > 0"),
        ({"batch_norm": "train"}, "batch_norm to be one of fixed, update"),
        ({"holdout": 1}, "holdout as a share between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(hf.InputError, match=text):
        hf.HardenSettings(**wrong)


def test_time_decides_on_the_steps_and_on_the_audits(trained: dict[str, torch.Tensor], monkeypatch) -> None:
    asked: list[float] = []

    def fitted(network, data, settings, minutes, **_):
        asked.append(minutes)
        return settings

    monkeypatch.setattr("holdfast.experiment.hardening.plan.fit_to_minutes", fitted)
    monkeypatch.setattr("holdfast.experiment.hardening.plan.try_steps", lambda *_: (2.0, 0.016))
    plans: list[Plan] = []
    monkeypatch.setattr(job.Job, "_audit", lambda self, plan, part: plans.append(plan) or 1 / 0)
    for minutes in (4.0, 0.1, 1000.0):
        with pytest.raises(ZeroDivisionError):
            hf.harden(net_with(trained), FEW, minutes=minutes, batch_size=16)
    assert [plan.steps for plan in plans] == [90, 20, 600]  # 3/4 of the time; at least 20; at most 60 epochs
    assert asked == [0.5, pytest.approx(0.0125), 125.0]
    assert (plans[0].every, plans[0].warm_up_steps) == (5, 27)
    assert plans[0].method["weight"] == 188.0  # a map term of size 3 at a distance of 0.016


class Unused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(3, 3)


def test_parameters_that_the_loss_does_not_reach_stay(trained: dict[str, torch.Tensor]) -> None:
    net = Unused()
    net.load_state_dict(trained, strict=False)
    before = net.other.weight.clone()
    found = hf.harden(net, FEW, max_accuracy_drop=1.0, **FAST)
    assert torch.equal(net.other.weight, before)
    assert net.other.weight.requires_grad
    assert "the loss does not depend on net.other.weight, net.other.bias" in str(found)


def test_any_method_and_any_map_runs(trained: dict[str, torch.Tensor]) -> None:
    for options in ({"map": "gradcam"}, {"map": "smoothgrad"}, {"method": "madry"}, {"method": "r2et"}):
        found = hf.harden(net_with(trained), FEW, max_accuracy_drop=1.0, **FAST | {"steps": 1} | options)
        assert found.kept_step == 1


def test_a_small_vision_transformer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=2,
        num_channels=1,
        num_labels=10,
    )
    torch.manual_seed(0)
    net = transformers.ViTForImageClassification(config)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    hf.fit(hf.recipes.natural(hf.Classifier(net)), hf.data.Loader(DIGITS, 50), optimizer, steps=60, progress=False)
    found = hf.harden(net, FEW, max_accuracy_drop=1.0, out=tmp_path, **FAST)
    assert found.kept_step == 4
    again = transformers.ViTForImageClassification(config)
    again.load_state_dict(safetensors.torch.load_file(tmp_path / "weights.safetensors"))


# The command

NETS = """
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
"""
FAST_COMMAND = "--steps 4 --limit 8 --passes 1 --no-strong --eps 0.1 --quiet --batch-size 16 --max-accuracy-drop 100"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a builder, class folders of images, and a checkpoint of half-precision weights with a prefix."""
    (tmp_path / "nets_to_harden.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_to_harden", raising=False)
    for i in range(200):
        folder = tmp_path / "images" / str(int(FEW.y[i]))
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(FEW.x[i, 0])).save(folder / f"{i:03d}.png")
    sys.path.insert(0, str(tmp_path))
    from nets_to_harden import small  # type: ignore[import-not-found]

    sys.path.remove(str(tmp_path))
    torch.manual_seed(0)
    net = small()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    hf.fit(hf.recipes.natural(hf.Classifier(net)), hf.data.Loader(DIGITS, 50), optimizer, steps=60, progress=False)
    halves = {f"module.{name}": v.half() if v.is_floating_point() else v for name, v in net.state_dict().items()}
    torch.save({"epoch": 3, "model": {"state_dict": halves}}, tmp_path / "w.pth")
    return tmp_path


def holdfast(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["holdfast", *shlex.split(line)])
    return main(shlex.split(line))


def test_the_command(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"harden --model nets_to_harden:small --weights w.pth --data images --out h {FAST_COMMAND}"
    assert holdfast(command, monkeypatch) == 0
    said = capsys.readouterr().out
    assert "160 images to train on, 40 held out" in said
    assert "normalisation before the network: none" in said
    assert "paired gains" in said

    # the user's own code loads both files: the same names, the same types, the same place in the checkpoint
    before = torch.load("w.pth", weights_only=True)["model"]["state_dict"]
    after = torch.load("h/weights.pth", weights_only=True)["model"]["state_dict"]
    assert list(before) == list(after)
    assert [value.dtype for value in before.values()] == [value.dtype for value in after.values()]
    assert not torch.equal(before["module.0.weight"], after["module.0.weight"])
    same = safetensors.torch.load_file("h/weights.safetensors")
    assert all(torch.equal(same[name], value) for name, value in after.items())
    from nets_to_harden import small

    small().load_state_dict({name.removeprefix("module."): value.float() for name, value in after.items()})

    # the page: verdict, paired gain with its interval, accuracy, the command that continues
    page = Path("h/report.html").read_text()
    result = json.loads(Path("h/result.json").read_text())
    gain = result["gains"]["top_k"]
    low, high = gain["mean_ci95"]
    assert f"top-k {100 * gain['mean']:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]" in page
    assert result["verdict"] in page
    assert "nets_to_harden:small, before" in page
    assert "holdfast harden --model nets_to_harden:small --data images" in page
    assert result["natural_accuracy_n"] == 20

    # what is audited is what is saved
    (following,) = [line.partition(": ")[2] for line in said.splitlines() if line.startswith("to continue")]
    assert shlex.split(following)[-4:] == ["--weights", "h/weights.pth", "--out", "h-2"]
    assert holdfast(following.removeprefix("holdfast "), monkeypatch) == 0
    second = json.loads(Path("h-2/result.json").read_text())
    for name in ("top_k", "natural_accuracy", "pgd_accuracy"):
        assert second[name][0] == result[name][1]

    assert holdfast(command, monkeypatch) == 2
    assert "continue it with --resume, or choose another directory" in capsys.readouterr().err
    assert holdfast(f"{command} --resume", monkeypatch) == 0  # nothing is left to do


def test_ctrl_c_prints_the_command_that_continues(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"harden --model nets_to_harden:small --weights w.pth --data images --out h {FAST_COMMAND}"
    forward = Objective.forward

    def stopping(self: Objective, *batch: torch.Tensor) -> object:
        if (Path("h") / "before" / "summary.json").exists():
            signal.raise_signal(signal.SIGINT)
        return forward(self, *batch)

    monkeypatch.setattr(Objective, "forward", stopping)
    assert holdfast(command, monkeypatch) == 130
    error = capsys.readouterr().err
    assert error.rstrip().endswith(f"resume with: holdfast {command} --resume")
    monkeypatch.setattr(Objective, "forward", forward)
    assert holdfast(error.rstrip().rpartition("resume with: holdfast ")[2], monkeypatch) == 0
    assert json.loads(Path("h/result.json").read_text())["kept_step"] == 4


def test_ctrl_c_in_an_audit(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = f"harden --model nets_to_harden:small --weights w.pth --data images --out h {FAST_COMMAND}"
    monkeypatch.setattr(job, "audit", stopped)
    assert holdfast(command, monkeypatch) == 130
    assert capsys.readouterr().err == f"holdfast: interrupted; continue with: holdfast {command} --resume\n"


def test_errors_in_the_words_of_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, text in {
        "harden --model nets_to_harden:small": "expected data to train the network on, got none; pass --data FOLDER",
        "harden --model nets_to_harden:small --data images --eps 8": "expected --eps <= 1",
        "harden --model nets_to_harden:small --data images --maps lime": "one of ig, gradient",
        "harden --model nets_to_harden:small --data images --method-args lam=2": "settings of erar_plus among eps",
    }.items():
        assert holdfast(line, monkeypatch) == 2
        assert text in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert holdfast("harden --model nets_to_harden:small --data images", monkeypatch) == 2
    assert "expected one process, got 2 of torchrun" in capsys.readouterr().err
