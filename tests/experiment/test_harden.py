"""Hardening: the user's own names, types, frozen parts and modes; resume; any method, map and network."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.experiment.harden_material import DIGITS, FAST, FEW, Net, net_with, trained_weights
from torch import nn

import holdfast as hf
from holdfast.experiment.hardening import job
from holdfast.experiment.hardening.guarded import GuardedObjective
from holdfast.storage.json_files import read_json
from holdfast.training import Interrupted


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.Tensor]:
    return trained_weights()


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
    for name in ("weights.safetensors", "after/examples.csv"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    results = [read_json(tmp_path / part / "result.json") for part in ("part", "whole")]
    for result in results:
        seconds = result.pop("seconds")
        assert list(seconds) == ["audit before", "training", "audit after", "all"]
        assert 0 <= seconds["training"] <= seconds["all"]
        result.pop("seal", None)
    assert results[0] == results[1]
    assert "It took " in (tmp_path / "part" / "report.html").read_text()


def test_nothing_is_left_of_a_hardening_that_cannot_be_audited(
    trained: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    right = hf.Classifier(net_with(trained)).eval()(hf.data.to_float(FEW.x)).argmax(1) == FEW.y
    good = FEW.subset(right.nonzero().flatten())
    wrong = replace(good, y=(good.y + 1) % 10)
    with pytest.raises(hf.InputError, match="images that the network predicts correctly, got none of"):
        hf.harden(net_with(trained), wrong, out=tmp_path / "out", **FAST)
    blind = net_with(trained)
    with torch.no_grad():
        blind.last.weight.zero_()
        blind.last.bias.copy_(torch.eye(10)[3])
    with pytest.raises(hf.InputError, match="maps with a ranking of pixels"):
        hf.harden(blind, FEW, method="madry", out=tmp_path / "out", **FAST | {"limit": 20})
    assert not (tmp_path / "out").exists()
    hf.harden(net_with(trained), good, max_accuracy_drop=1.0, out=tmp_path / "out", **FAST)


def test_notes_of_the_audits_are_said_once(trained: dict[str, torch.Tensor], tmp_path: Path) -> None:
    noted = replace(FEW, notes=("1 of 201 image files cannot be read",))
    found = hf.harden(net_with(trained).half(), noted, max_accuracy_drop=1.0, out=tmp_path, **FAST)
    page = (tmp_path / "report.html").read_text()
    for note in ("1 of 201 image files cannot be read", "the network is built in float16"):
        assert str(found).count(note) == 1
        assert page.count(note) == 1
    assert found.view.verdict.startswith("This comparison cannot say whether the maps hold better: only 4 images")


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
        how = options.get("method") or f"erar_plus on the map {options['map']}"
        assert f"{how}, 1 steps of 16 images" in str(found)


def test_a_step_larger_than_the_ball_is_questioned(trained: dict[str, torch.Tensor]) -> None:
    options = FAST | {"steps": 1, "method_settings": {"step_size": 0.2}}
    found = hf.harden(net_with(trained), FEW, max_accuracy_drop=1.0, **options)
    assert found.notes == ("step_size = 0.2 is larger than eps = 0.1; did you mean 0.025?",)
    assert found.notes[0] in str(found)


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
