"""Train, evaluate and audit a network of the user's own; what is printed as the next command works."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import holdfast as hf
from holdfast.cli import main
from holdfast.experiment import run as runs
from holdfast.experiment.audit_inputs import ImageOptions, open_images
from holdfast.experiment.networks import load_run
from holdfast.models.checksum import network_checksum

NETS = """
from torch import nn
from tests.nets import OnceOnly

def rigid(num_classes):
    return nn.Sequential(OnceOnly(), small(num_classes))

def small(num_classes, width=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, num_classes))

def colour(num_classes=10):
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(num_classes))

def fixed():
    return small(4)
"""
SMALL = "--evaluate.ifia.steps 1 --evaluate.ifia.ig-steps 2 --evaluate.ensemble none --evaluate.apgd none"
SMALL += " --evaluate.pgd.steps 1 --train.steps 2 --quiet"
AUDIT = "--steps 1 --ig-steps 2 --no-strong --limit 4 --quiet"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets_to_train.py").write_text(NETS)
    digits = hf.data.load("digits", split="test")
    for label in range(10):
        folder = tmp_path / "images" / str(label)
        folder.mkdir(parents=True)
        for i in (digits.y == label).nonzero().flatten()[:5].tolist():
            Image.fromarray(np.asarray(digits.x[i, 0])).save(folder / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_to_train", raising=False)
    return tmp_path


def holdfast(line: str) -> int:
    return main(shlex.split(line))


def test_the_next_command_that_is_printed_works(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = "--model nets_to_train:small --model-args width=6 --data images --data.options.holdout 0.4"
    assert holdfast(f"train digits/madry {own} {SMALL} --out run") == 0
    said = capsys.readouterr().out
    (following,) = [line.removeprefix("next: ") for line in said.splitlines() if line.startswith("next: ")]
    assert following == "holdfast evaluate run --model nets_to_train:small"
    assert holdfast(f"{following.removeprefix('holdfast ')} --limit 4 --pgd-limit 4 --quiet") == 0
    assert json.loads(Path("run/summary.json").read_text())["n"] == 4
    capsys.readouterr()

    assert holdfast("evaluate run") == 2
    assert "if you trust it, pass --model nets_to_train:small" in capsys.readouterr().err
    assert holdfast("audit --model run") == 2
    assert "if you trust it, pass --builder nets_to_train:small" in capsys.readouterr().err
    assert holdfast("audit --model run --builder nets_to_train:small --out run") == 2
    assert "got run, which holds a training run; choose another folder" in capsys.readouterr().err

    # without --data: the test part of the run's own data, divided as in training
    assert holdfast(f"audit --model run --builder nets_to_train:small --labels predicted --out a {AUDIT}") == 0
    said = capsys.readouterr().out
    assert "20 images of 1 x 8 x 8" in said
    assert "note: the images are the test part of the run's own data" in said
    test = hf.data.load("images", split="test", holdout=0.4)
    trained_on = hf.data.load("images", split="train", holdout=0.4)
    seen = {image.numpy().tobytes() for image in trained_on.x}
    assert len(test) == 20
    assert not any(image.numpy().tobytes() in seen for image in test.x)
    # the same folder under another spelling is the same data
    words = f"--data {project / 'images'} --builder nets_to_train:small --labels predicted --out b {AUDIT}"
    assert holdfast(f"audit --model run {words}") == 0
    assert "20 images of 1 x 8 x 8" in capsys.readouterr().out
    rows = [Path(folder, "examples.csv").read_text().splitlines()[0] for folder in "ab"]
    assert rows[0] == rows[1]

    # another holdout would audit images that the network was trained on
    assert holdfast("audit --model run --builder nets_to_train:small --holdout 0.2 --out c") == 2
    said = capsys.readouterr().err
    assert "expected --holdout 0.4, as in the training of the run, got --holdout 0.2; leave it out" in said
    assert not Path("c").exists()
    opened = load_run("run", network="nets_to_train:small")
    assert len(open_images(None, opened, ImageOptions(holdout=0.4))) == 20

    # the builder serves for the natural network, too, unless that is a registered one
    assert holdfast(f"train digits/natural --data images --data.options.holdout 0.4 {SMALL} --out plain") == 0
    for natural in ("run", "plain"):
        line = f"evaluate run --model nets_to_train:small --limit 4 --pgd-limit 4 --quality --natural {natural} --quiet"
        assert holdfast(line) == 0
        assert "natural_spearman" in json.loads(Path("run/summary.json").read_text())["quality"]


def test_a_run_of_a_registered_network_needs_no_builder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert holdfast(f"train digits/natural {SMALL} --out run") == 0
    assert "next: holdfast evaluate run\n" in capsys.readouterr().out
    assert holdfast(f"audit --model run --labels predicted --out a {AUDIT}") == 0
    assert "360 images of 1 x 8 x 8" in capsys.readouterr().out
    assert holdfast(f"audit --model run --output logits --out b {AUDIT}") == 2
    assert "--weights-key and --builder with a run directory or zoo:NAME, got --output" in capsys.readouterr().err
    assert holdfast(f"audit --model run --holdout 0.2 --out b {AUDIT}") == 2
    assert "expected no holdout, since the run's data has a test part, got --holdout 0.2" in capsys.readouterr().err


def test_a_run_takes_other_weights(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert holdfast(f"train digits/natural {SMALL} --out run") == 0
    other = hf.load("run")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    torch.save({"ema": other.net.state_dict()}, "w.pt")
    wanted = network_checksum(other)
    assert network_checksum(hf.load("run")) != wanted
    assert network_checksum(hf.load("run", weights="w.pt")) == wanted
    line = f"audit --model run --weights w.pt --weights-key ema --labels predicted --out a {AUDIT}"
    assert holdfast(line) == 0
    assert json.loads(Path("a/measured.json").read_text())["network"] == wanted
    capsys.readouterr()
    assert holdfast(f"audit --model run --weights missing.pt --out b {AUDIT}") == 2
    assert "expected weights at missing.pt, got no such file; check the path" in capsys.readouterr().err
    assert holdfast(f"audit --model run --weights-key ema --out b {AUDIT}") == 2
    assert "expected --weights-key only for a checkpoint of torch.save" in capsys.readouterr().err


def test_fine_tuning_starts_from_a_checkpoint_of_torch_save(project: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4), torch.nn.ReLU(), torch.nn.Linear(4, 10))
    torch.save({"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}}, "w.ckpt")
    line = f"train digits/natural --model nets_to_train:small --init w.ckpt --train.lr 1e-9 {SMALL} --out run"
    assert holdfast(line) == 0
    found = load_run("run", network="nets_to_train:small").network
    torch.testing.assert_close(found.net[1].weight, net[1].weight, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("line", "parts", "absent"),
    [
        ("--init w.safetensors", ["got none at w.safetensors; pass a run directory or a file of weights"], "runs/"),
        ("--init there/w.pt", ["got none at there/w.pt; pass a run directory"], "runs/"),
        ("--method.settings.eps 8", ["expected --method.settings.eps <= 1,", "got 8; did you mean 8/255?"], "holdout="),
        ("--evaluate.pgd.eps 16", ["expected --evaluate.pgd.eps <= 1", "did you mean 16/255?"], "Traceback"),
        ("--evaluate.ifia.eps 300", ["evaluate.ifia.eps", "pass a number from 0 to 1"], "Traceback"),
        ("--data images", ["pass --data.options.holdout 0.2 to hold out a fifth for testing."], "split="),
        ("--model nets_to_train:colour", ["images of 3 channels", "pass --data.transforms rgb"], "bug"),
        ("--model nets_to_train:fixed", ["an output for each of the 10 classes, got 4 outputs"], "bug"),
        ("--model nets_to_train:small --model-args width", ["--model-args as key=value, got 'width'"], "bug"),
        ("--model nets_to_train:small --model-args depth=2", ["got TypeError"], "bug"),
    ],
)
def test_refusals_of_train(
    project: Path, capsys: pytest.CaptureFixture[str], line: str, parts: list[str], absent: str
) -> None:
    assert holdfast(f"train digits/madry --out run --quiet {line}") == 2
    said = capsys.readouterr().err
    for part in parts:
        assert part in said
    assert absent not in said
    assert not Path("run").exists()


def test_a_loss_of_second_order_needs_a_network_differentiable_twice(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"--model nets_to_train:rigid --init none {SMALL}"
    assert holdfast(f"train digits/erar_plus {line} --out run") == 2
    said = capsys.readouterr().err
    assert "expected a network that can be differentiated twice, got net.0 (OnceOnly)" in said
    assert len(said.strip().splitlines()) == 1
    assert not Path("run").exists()
    assert holdfast(f"train digits/madry {line} --out first-order") == 0


def test_fractions_are_accepted(project: Path) -> None:
    assert holdfast(f"train digits/madry --method.settings.eps 8/255 {SMALL} --out run") == 0


def test_a_missing_start_names_the_preset_to_train() -> None:
    from holdfast.config import make_config

    config = make_config("mnist/erar_plus_v1:cpu")
    with pytest.raises(hf.InputError, match=r"train it first: holdfast train mnist/erar_plus-maps:cpu --seed 0"):
        runs.start_of(config, Path("out"))


def test_own_networks_start_from_own_runs(project: Path) -> None:
    """A preset that starts from another: with another network and data, so does the other, beside it."""
    from holdfast.config import make_config

    changes = [("model.name", "nets_to_train:small"), ("data.name", "images"), ("data.options.holdout", "0.2")]
    config = make_config("mnist/erar_plus_v1:cpu", overrides=changes)
    found = runs.missing_starts(config, Path("runs/images/erar_plus"), changes)
    assert found == [
        ("mnist/erar_plus-quiet:cpu", Path("runs/images/erar_plus-quiet")),
        ("mnist/erar_plus-maps:cpu", Path("runs/images/erar_plus-maps")),
    ]
    plain = runs.missing_starts(make_config("mnist/erar_plus_v1:cpu"), Path("elsewhere/a"))
    assert plain[1] == ("mnist/erar_plus-maps:cpu", Path("runs/mnist/erar_plus-maps"))


def test_report_refuses_a_path_that_is_not_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("good").mkdir()
    Path("good/config.toml").write_text("")
    assert holdfast("report good missing --out page.html") == 2
    assert "got missing, which does not exist" in capsys.readouterr().err
    assert not Path("page.html").exists()
