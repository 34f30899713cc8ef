"""The command `holdfast harden`: files, page, Ctrl-C, errors."""

import json
import re
import shlex
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from tests.experiment.harden_material import DIGITS, FEW

import holdfast as hf
from holdfast.cli import main
from holdfast.experiment.hardening import job
from holdfast.objective import Objective

NETS = """
import torch
from torch import nn
from tests.nets import Bypassed, OnceOnly

def rigid():
    return nn.Sequential(OnceOnly(), small())

def small():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))

def partly_frozen():
    net = loaded()
    return nn.Sequential(*net[:4], nn.Dropout(0.5).eval(), net[4])

def loaded():
    net, state = small(), torch.load("w.pth", weights_only=True)["model"]["state_dict"]
    net.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    return net
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
    net = fitted(small())
    halves = {f"module.{name}": v.half() if v.is_floating_point() else v for name, v in net.state_dict().items()}
    torch.save({"epoch": 3, "model": {"state_dict": halves}}, tmp_path / "w.pth")
    return tmp_path


def fitted(net: torch.nn.Module) -> torch.nn.Module:
    """The network after a short training on the digits."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    hf.fit(hf.recipes.natural(hf.Classifier(net)), hf.data.Loader(DIGITS, 50), optimizer, steps=60, progress=False)
    return net


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
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    pictures = json.loads(data[1])["pictures"]
    assert pictures
    assert any([shot["run"] for shot in picture["shots"]] == [0, 1] for picture in pictures)  # before and after
    for part in ("perturbed", "clean_map", "perturbed_map"):
        assert all(shot[part].startswith("data:image/png") for picture in pictures for shot in picture["shots"])
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


def test_a_hardened_run_is_audited_and_hardened_further(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert holdfast("train digits/natural --train.steps 60 --out run --quiet", monkeypatch) == 0
    assert holdfast(f"harden --model run --out h {FAST_COMMAND}", monkeypatch) == 0
    assert following(capsys)[-4:] == ["--weights", "h/weights.safetensors", "--out", "h-2"]
    audit = "audit --model run --weights h/weights.safetensors --out a --no-strong --steps 1 --ig-steps 2 --limit 4"
    assert holdfast(f"{audit} --labels predicted --quiet", monkeypatch) == 0
    measured = [json.loads(Path(folder, "measured.json").read_text()) for folder in ("h/before", "h/after", "a")]
    assert measured[0]["network"] != measured[1]["network"] == measured[2]["network"]

    # the folder of a hardening stands for the weights in it
    assert holdfast(f"harden --model run --weights h --out h2 {FAST_COMMAND}", monkeypatch) == 0
    assert following(capsys)[-4:] == ["--weights", "h2/weights.safetensors", "--out", "h2-2"]
    assert json.loads(Path("h2/before/measured.json").read_text())["network"] == measured[1]["network"]


def test_weights_that_the_function_creates_are_continued(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert holdfast(f"harden --model nets_to_harden:loaded --data images --out h {FAST_COMMAND}", monkeypatch) == 0
    assert following(capsys)[-4:] == ["--weights", "h/weights.safetensors", "--out", "h-2"]


def following(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of the command that goes on from the hardened weights, which exist."""
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("to continue")]
    words = shlex.split(line.partition(": ")[2])
    assert Path(words[words.index("--weights") + 1]).is_file()
    return words


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


@pytest.mark.parametrize("builder", ["partly_frozen", "loaded"])
def test_layers_that_the_builder_froze_stay_so(project: Path, monkeypatch: pytest.MonkeyPatch, builder: str) -> None:
    seen = []
    forward = Objective.forward

    def watched(self: Objective, *batch: torch.Tensor) -> object:
        seen.append([layer.training for layer in self.model.net])
        return forward(self, *batch)

    monkeypatch.setattr(Objective, "forward", watched)
    assert holdfast(f"harden --model nets_to_harden:{builder} --data images --out h {FAST_COMMAND}", monkeypatch) == 0
    batch_norm_fixed = [True, False, True, True]
    assert seen[0] == [*batch_norm_fixed, *([False] if builder == "partly_frozen" else []), True]
    assert all(modes == seen[0] for modes in seen)


def test_map_and_layer(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from nets_to_harden import Bypassed

    torch.save(fitted(Bypassed()).state_dict(), "b.pt")
    line = f"harden --model nets_to_harden:Bypassed --weights b.pt --data images --out h {FAST_COMMAND} --map gradcam"
    assert holdfast(line, monkeypatch) == 2
    assert "name the layer to use with --layer, one of net.conv" in capsys.readouterr().err
    assert holdfast(f"{line} --layer conv", monkeypatch) == 0
    plan = json.loads(Path("h/plan.json").read_text())["plan"]
    assert (plan["method"]["map"], plan["method"]["layer"]) == ("gradcam", "conv")
    assert holdfast(f"{line} --layer conv --resume --eps 0.2", monkeypatch) == 2
    assert "expected --eps 0.1, as at the start of the run, got 0.2" in capsys.readouterr().err


def test_ctrl_c_in_an_audit(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = f"harden --model nets_to_harden:small --weights w.pth --data images --out h {FAST_COMMAND}"
    monkeypatch.setattr(job, "run_audit", stopped)
    assert holdfast(command, monkeypatch) == 130
    assert capsys.readouterr().err == f"holdfast: interrupted; continue with: holdfast {command} --resume\n"


def test_errors_in_the_words_of_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, text in {
        "harden --model nets_to_harden:small": "expected data to train the network on, got none; pass --data FOLDER",
        "harden --model nets_to_harden:small --data images --eps 8": "expected --eps <= 1",
        "harden --model nets_to_harden:small --data images --maps lime": "expected --maps to be one of ig, gradient",
        "harden --model nets_to_harden:small --data images --steps 0": "expected --steps > 0, got 0",
        "harden --model nets_to_harden:small --data images --passes 0": "expected --passes > 0, got 0",
        "harden --model nets_to_harden:small --data images --max-accuracy-drop 300": (
            "expected --max-accuracy-drop from 0 to 100, in points, got 300."
        ),
        "harden --model nets_to_harden:small --data images --method-args lam=2": (
            "expected --method-args of erar_plus among eps"
        ),
        "harden --model nets_to_harden:small --data images --method-args lam": "--method-args as key=value, got 'lam'",
    }.items():
        assert holdfast(line, monkeypatch) == 2
        assert text in capsys.readouterr().err
    assert "note:" not in capsys.readouterr().out
    assert holdfast("harden --model nets_to_harden:small --eps 0.1 --method-args step_size=0.2", monkeypatch) == 2
    said = capsys.readouterr().out
    assert "note: --method-args step_size=0.2 is larger than eps = 0.1; did you mean 0.025?" in said
    assert holdfast(f"harden --model nets_to_harden:rigid --data images --out rigid {FAST_COMMAND}", monkeypatch) == 2
    said = capsys.readouterr().err
    assert "expected a network that can be differentiated twice, got net.0 (OnceOnly)" in said
    assert len(said.strip().splitlines()) == 1
    assert not Path("rigid").exists()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert holdfast("harden --model nets_to_harden:small --data images", monkeypatch) == 2
    assert "expected one process, got 2 of torchrun" in capsys.readouterr().err
