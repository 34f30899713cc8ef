"""Errors and help in the words of the command line: every message names the option that the user typed."""

import re

import pytest
import torch

import holdfast as hf
from holdfast.cli import main
from holdfast.commands.flags import as_flags
from holdfast.config import parse_arguments
from holdfast.data.formats.geometry import Geometry
from holdfast.errors import HoldfastError
from holdfast.experiment.hardening.job import check_same
from holdfast.experiment.networks import ModelOptions, open_model
from holdfast.models.weight_names import fit_weights

BEGUN = {"eps": 0.1, "map": "ig", "max_accuracy_drop": 0.02, "method_settings": {"weight": 8}}


def resumed(**changed: object) -> None:
    check_same({"settings": BEGUN}, {"settings": BEGUN | changed})


def other_normalisation() -> None:
    net = hf.models.build("digits-cnn")
    fit_weights([hf.Classifier(net)], hf.Classifier(net, mean=0.5, std=0.2).state_dict(), "w.pt")


@pytest.mark.parametrize(
    ("command", "fails", "said"),
    [
        ("audit", other_normalisation, "pass the same --mean and --std"),
        ("audit", lambda: Geometry(size=200, crop=300), "expected --crop <= --size, got --crop 300 and --size 200"),
        ("harden", lambda: Geometry(size=-1), "expected --size as a positive height"),
        ("train", lambda: Geometry(size=-1), "expected --data.options.size as a positive height"),
        ("audit", lambda: hf.data.load("digits", split="dev"), "expected --split to be one of"),
        ("harden", lambda: hf.HardenSettings(method="sgd"), "expected --method to be one of"),
        ("audit", lambda: hf.AuditSettings(ig_steps=0), "expected --ig-steps >= 1, got 0."),
        ("audit", lambda: hf.AuditSettings(search_ig_steps=0), "expected --search-ig-steps >= 1, got 0."),
        ("audit", lambda: hf.AuditSettings(maps=("ig", "ig")), "expected --maps with different names, got ig, ig."),
        ("audit", lambda: hf.maps.make_map("lime"), "expected --maps to be one of ig, gradient"),
        (
            "harden",
            lambda: hf.HardenSettings(method="igr", map="gradcam", layer="conv"),
            "expected a method that takes --maps gradcam and --layer conv, got --method igr; "
            "pass --method erar_plus or leave out --maps gradcam and --layer conv.",
        ),
        ("harden", lambda: hf.HardenSettings(batch_norm="no"), "expected --batch-norm to be one of"),
        ("harden", lambda: hf.HardenSettings(layer="conv"), "expected --layer only with the maps gradcam"),
        ("audit", lambda: hf.AuditSettings(layer="conv"), "expected --layer only with the maps gradcam"),
        (
            "audit",
            lambda: open_model("zoo:gtsrb/madry", ModelOptions(arguments={"a": 1}, normalize="imagenet")),
            "expected only --weights, --weights-key and --builder with a run directory or zoo:NAME, "
            "got --model-args, --normalize;",
        ),
        ("audit", lambda: open_model("torch.nn:Conv2d"), "pass its arguments as --model-args key=value"),
        ("train", lambda: open_model("torch.nn:Conv2d"), "pass its arguments as --model-args key=value"),
        ("harden", lambda: open_model("torch.nn:ReLU", ModelOptions(builder="a:b")), "expected --builder only with"),
        ("harden", lambda: resumed(eps=0.2), "expected --eps 0.1, as at the start of the run, got 0.2"),
        ("harden", lambda: resumed(map="gradient"), "expected --maps 'ig', as at the start"),
        ("harden", lambda: resumed(max_accuracy_drop=0.05), "expected --max-accuracy-drop 2, as at the start"),
        ("harden", lambda: resumed(max_accuracy_drop=0.05), "got 5;"),
        ("harden", lambda: resumed(method_settings={"weight": 4}), "expected --method-args weight=8, as at the start"),
        ("harden", lambda: parse_arguments(["x"], "--method-args"), "expected --method-args as key=value, got 'x'"),
    ],
)
def test_errors_name_the_option(command: str, fails, said: str) -> None:
    with pytest.raises(HoldfastError) as found:
        fails()
    assert said in as_flags(str(found.value), command)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expected a key only for a checkpoint of torch.save, got 'ema'.", "expected --weights-key only for a checkp"),
        ("expected layout to be one of NHWC, NCHW, NHW, got 'HW'.", "expected --layout to be one of NHWC"),
        ("expected settings of erar among eps, weight, got lam.", "expected --method-args of erar among eps, weight"),
        ("expected images of one size, got 2; pass size=N, crop=N to scale them", "pass --size N --crop N to scale"),
        ("expected classes of the network's (a, b), got 'c'.", "expected classes of the network's (a, b), got 'c'."),
    ],
)
def test_texts(text: str, said: str) -> None:
    assert said in as_flags(text, "harden")


def test_the_layer_that_cannot_be_chosen_is_named_with_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    class Bypassed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.end = torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.Linear(192, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.end(torch.cat([self.conv(x), x], 1).flatten(1))

    with pytest.raises(hf.InputError) as found:
        hf.GradCAM()(Bypassed(), torch.rand(1, 1, 8, 8), torch.tensor([0]))
    assert "name the layer to use with --layer, one of conv" in as_flags(str(found.value), "audit")


@pytest.mark.parametrize("command", ["audit", "harden", "train"])
def test_no_empty_default_in_the_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    assert "--model-args" in said
    assert not re.search(r"\(default:\s*[│]?\s*\)", said)


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_names_of_presets_and_tiers_stay_whole(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["presets"]) == 0
    table = capsys.readouterr().out.splitlines()
    heads = [line.split() for line in table if line.startswith("preset ")]
    assert ["preset", ":paper", ":released-code", ":rar-config", ":cpu"] in heads
    assert any(line.startswith("fashion-mnist/natural-small-batches ") for line in table)
    if columns != "60":
        assert max(map(len, table)) <= int(columns)
