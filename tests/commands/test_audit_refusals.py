"""What `holdfast audit` cannot work with: one sentence that names the option, exit code 2; the same from Python."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from tests.commands.audit_material import audit, make_project
from torch import nn

import holdfast as hf
from holdfast.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("--model nets_of_user:broken", ["nets_of_user:broken()", "got AssertionError: width must be even"]),
        ("--model nets_of_user:broken --model-args width", ["expected --model-args as key=value, got 'width'"]),
        ("--model nets_of_user:Wrapped --model-args form=tuple", ["got a tuple of", "--output 1"]),
        ("--model nets_of_user:Wrapped --model-args form=dict", ["got a dict with the keys", "--output logits"]),
        ("--model nets_of_user:Wrapped --model-args form=boxes", ["got a list of a tensor of shape [2, 10, 1]"]),
        ("--model nets_of_user:rigid", ["can be differentiated twice", "OnceOnly", "replace these layers"]),
        ("--model nets_of_user:constant --limit 20", ["a ranking of pixels, got a constant map for each of the 2"]),
        ("--model nets_of_user:Colour --channels rgb --mean 0 0 --std 1", ["expected --mean with 1 or 3 values"]),
        ("--model nets_of_user:grey --k 0", ["expected 1 <= k <= 64", "got --k = 0"]),
        ("--model nets_of_user:grey --k 65", ["expected 1 <= k <= 64", "got --k = 65"]),
        ("--model nets_of_user:grey --limit 0", ["expected --limit >= 1, got 0; None means all images"]),
        ("--model nets_of_user:grey --steps -1", ["expected --steps >= 0, got -1"]),
        ("--model nets_of_user:grey --passes 0", ["expected --passes >= 1, got 0"]),
        ("--model nets_of_user:grey --ig-steps 0", ["expected --ig-steps >= 1, got 0."]),
        ("--model nets_of_user:grey --search-ig-steps 0", ["expected --search-ig-steps >= 1, got 0."]),
        ("--model nets_of_user:grey --maps ig ig", ["expected --maps with different names, got ig, ig."]),
        ("--model nets_of_user:grey --maps ig lime", ["expected --maps to be one of ig, gradient", "got 'lime'"]),
        ("--model nets_of_user:grey --map lime", ["expected --map to be one of ig, gradient", "got 'lime'"]),
        ("--model nets_of_user:grey --attacks nonsense", ["expected --attacks to be among", "got nonsense"]),
        ("--model nets_of_user:grey --holdout 1.5", ["expected --holdout as a fraction"]),
        ("--model nets_of_user:deep", ["a network that takes images of 1 channel, 8 x 8", "16 x 16: pass --size 16"]),
        ("--model nets_of_user:strides", ["images of 1 channel, 8 x 8", "16 x 16: pass --size 16"]),
        ("--model nets_of_user:grey --channels rgb", ["images of 1 channel,", "--channels grey"]),
        ("--model nets_of_user:Colour --weights inner.pt", ["1 missing (mix.weight)"]),
        ("--model nets_of_user:Wrapped --model-args form=dict --weights colour.pth", ["1 left over (mix.weight)"]),
        ("--model nets_of_user:grey --weights colour.pth", ["no name agrees"]),
        ("--model nets_of_user:grey --weights colour.pth --weights-key ema", ["weights under 'ema' in colour.pth"]),
        ("--model nets_of_user:grey --mean 128 --std 50", ["--mean for pixels in [0, 1], got 128.0", "--mean 0.502"]),
        ("--model nets_of_user:grey --mean 0.5", ["expected --mean and --std together, got --mean alone", "--std 1"]),
        ("--model nets_of_user:grey --std 0.5", ["got --std alone; pass --mean 0"]),
        ("--model nets_of_user:grey --normalize imagenet --mean 0.5 --std 1", ["--normalize, or --mean and --std"]),
        ("--model nets_of_user:grey --eps 8", ["expected --eps <= 1", "got 8; did you mean 8/255?"]),
        ("--model nets_of_user:grey --eps 8/25.5.5", ["--eps as a number or a fraction such as 8/255"]),
        ("--model nets_of_user:grey --eps -1", ["eps >= 0"]),
        ("--model nets_of_user:grey --split test", ["pass --holdout 0.2", "--split all"]),
        ("--model nets_of_user:grey --holdout 0", ["--holdout 0.2"]),
        ("--model nets_of_user:grey --crop 16", ["images of at least 16 x 16, the crop", "pass --size N"]),
        ("--model nets_of_user:grey --classes nowhere.txt", ["a file of class names at nowhere.txt"]),
        ("--model nets_of_user:grey --builder nets_of_user:grey", ["expected --builder only with a run directory"]),
        ("--model timm_is_not_a_module:x", ["a function package.module:function"]),
    ],
)
def test_refusals(project: Path, capsys: pytest.CaptureFixture[str], line: str, parts: list[str]) -> None:
    assert audit(line) == 2
    said = capsys.readouterr().err
    for part in parts:
        assert part in said
    assert "bug" not in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
    assert not Path("out").exists()  # network and settings are checked before anything is written


def test_more_outputs_than_folders(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("images/3").rename("images/three")
    assert audit("--model nets_of_user:grey --model-args num_classes=12") == 2
    said = capsys.readouterr().err
    assert "a class for each of the 12 outputs of the network, got 10 (0, 1, 2, 4, ...)" in said
    assert "with --classes FILE, or explain predictions with --labels predicted" in said


def test_no_image_predicted_correctly(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str((label + 5) % 10) for label in range(10)]  # every class under the name of another
    (project / "names.txt").write_text("\n".join(names))
    Path("images/0").rename("images/a")
    Path("images/5").rename("images/0")
    Path("images/a").rename("images/5")
    for label in "12346789":
        for path in Path("images", label).iterdir():
            path.unlink()
    assert audit("--model nets_of_user:grey --weights grey.pt") == 2
    said = capsys.readouterr().err
    assert "expected images that the network predicts correctly, got none of 4" in said
    assert "(--classes FILE)" in said
    assert "--labels predicted" in said


def test_deep_pictures_and_empty_folders(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in Path("images").rglob("*.png"):
        path.unlink()
    assert audit("--model nets_of_user:grey") == 2
    assert "expected images (.png" in capsys.readouterr().err
    Image.new("I;16", (8, 8), 5000).save("images/1/deep.png")
    assert audit("--model nets_of_user:grey") == 2
    assert "found deep.png of mode I;16; convert it to 8 bits per channel" in capsys.readouterr().err


def test_no_data_and_no_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--model", "nets_of_user:grey"]) == 2
    assert "pass --data FOLDER" in capsys.readouterr().err


def test_python_has_the_same_checks() -> None:
    with pytest.raises(hf.InputError, match=r"eps <= 1.*did you mean 8/255\?$"):
        hf.AuditSettings(eps=8)
    digits = hf.data.load("digits", split="test").subset(range(8))
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].bias.copy_(torch.eye(10)[int(digits.y[0])])
    with pytest.raises(hf.InputError, match="maps with a ranking of pixels"):
        hf.audit(net, digits, hf.AuditSettings(eps=0.1, steps=1, ig_steps=2))


def test_python_says_which_images_a_network_takes() -> None:
    grey = hf.data.load("digits", split="test").subset(range(8))
    colour = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 10))
    says = "images of 3 channels, as the network takes them, got 1 channel, 8 x 8; pass transforms='rgb' to load"
    for labels in ("given", "predicted"):
        with pytest.raises(hf.InputError, match=says):
            hf.audit(colour, grey, labels=labels)
    with pytest.raises(hf.InputError, match=r"got RuntimeError: .*it takes images of 16 x 16: pass size=16"):
        hf.audit(nn.Sequential(nn.Flatten(), nn.Linear(256, 10)), grey)


def test_a_folder_with_parts_needs_no_holdout(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "parts").mkdir()
    for part in ("train", "test"):
        (project / "parts" / part).symlink_to(project / "images")
    for more, got in {"--holdout 0.2": "--holdout 0.2", "--split all": "--split all"}.items():
        assert audit(f"--model nets_of_user:grey --data parts {more}") == 2
        said = capsys.readouterr().err
        assert said.endswith(f"and no holdout for a folder with train and test, got {got}.\n")
