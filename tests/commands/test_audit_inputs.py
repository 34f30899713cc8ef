"""`holdfast audit` with the networks, weights and images that people have; one sentence for each that cannot work."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.outside import outside
from tests.trained import trained
from torch import nn

import holdfast as hf
from holdfast.cli import main

NETS = """
import torch
import holdfast as hf
from torch import nn
from tests.nets import OnceOnly


class Colour(nn.Module):
    # the digits network behind a layer that takes three channels
    def __init__(self, num_classes=10, seed=3):
        super().__init__()
        self.mix = nn.Conv2d(3, 1, 1, bias=False)
        self.inner = hf.models.build("digits-cnn", num_classes=num_classes, seed=seed)

    def forward(self, x):
        return self.inner(self.mix(x))


class Wrapped(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.inner, self.form = grey(), form

    def forward(self, x):
        z = self.inner(x)
        forms = {"tuple": (x, z), "dict": {"logits": z, "more": x}, "softmax": z.softmax(1), "boxes": [z[:, :, None]]}
        return forms[self.form]


def grey(num_classes=10):
    return hf.models.build("digits-cnn", num_classes=num_classes, seed=3)


def half():
    return grey().half()


def broken(width=3):
    assert width % 2 == 0, "width must be even"


def rigid():
    return nn.Sequential(OnceOnly(), grey())


def constant():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.eye(10)[3])

        def forward(self, x):
            return self.bias + 0 * x.sum((1, 2, 3))[:, None]

    return Constant()


def deep():
    # four poolings: takes images of at least 16 x 16
    pools = [layer for _ in range(4) for layer in (nn.Conv2d(1, 1, 3, padding=1), nn.MaxPool2d(2))]
    return nn.Sequential(*pools, nn.Flatten(), nn.LazyLinear(10))


class Bypassed(nn.Module):
    # its last layer sees the image itself, too, so that Grad-CAM cannot choose a layer
    def __init__(self):
        super().__init__()
        self.conv, self.end = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(320, 10)

    def forward(self, x):
        return self.end(torch.cat([self.conv(x), x], 1).flatten(1))


def strides():
    return nn.Sequential(nn.Conv2d(1, 4, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of networks, checkpoints of two of them, and ten classes of grey PNGs."""
    (tmp_path / "nets_of_user.py").write_text(NETS)
    net, digits = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    state = {f"inner.{name}": value for name, value in net.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "inner.pt")
    state["mix.weight"] = torch.full((1, 3, 1, 1), 1 / 3)
    torch.save({"model": {f"_orig_mod.{k}": v.half() for k, v in state.items()}}, tmp_path / "colour.pth")
    torch.save(net.state_dict(), tmp_path / "grey.pt")
    for label in range(10):
        (tmp_path / "images" / str(label)).mkdir(parents=True)
        for i in (digits.y == label).nonzero().flatten()[:2].tolist():
            Image.fromarray(np.asarray(digits.x[i, 0])).save(tmp_path / "images" / str(label) / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_of_user", raising=False)
    return tmp_path


QUICK = "--steps 1 --ig-steps 2 --no-strong --limit 4 --quiet"


def audit(line: str, out: str = "out") -> int:
    """Run the command; later options replace earlier ones of the same name."""
    return main(["audit", *f"--data images {QUICK} --out {out} {line}".split()])


def summary(out: str = "out") -> dict:
    return json.loads(Path(out, "summary.json").read_text())


# ---- what works ----


def test_grey_pictures_half_weights_and_a_colour_network(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("--model nets_of_user:Colour --weights colour.pth --eps 8/255") == 0
    said = capsys.readouterr().out
    assert "20 images of 3 x 8 x 8" in said
    assert "8/255 per pixel" in said
    found = summary()
    assert found["natural_accuracy"] >= 0.8
    told = " ".join(found["audit"]["notes"])
    assert "stored in float16; holdfast computes in float32" in told
    assert "each image is repeated in three channels" in told
    assert "chance" not in told


def test_arguments_prefixes_and_a_class_count_that_is_wrong(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "--model nets_of_user:Wrapped --model-args form=tuple --weights inner.pt --output 1"
    assert audit(line) == 0
    assert summary()["natural_accuracy"] >= 0.8
    assert audit("--model nets_of_user:grey --model-args num_classes=4") == 2
    said = capsys.readouterr().err
    assert "expected at most 4 classes, one per output of the network, got 10 (0, 1, 2, 3, ...)" in said
    assert "--model-args num_classes=10" in said


def test_softmax_outputs_are_noted(project: Path) -> None:
    assert audit("--model nets_of_user:Wrapped --model-args form=softmax --weights inner.pt") == 0
    assert "the network returns probabilities" in " ".join(summary()["audit"]["notes"])


def test_chance_level_is_the_first_note(project: Path) -> None:
    assert audit("--model nets_of_user:half --limit 20") == 0  # random weights
    notes = summary()["audit"]["notes"]
    assert notes[0].startswith("accuracy is at chance level: ")
    assert any("the network is built in float16" in note for note in notes)


def test_a_damaged_file_and_an_empty_class(project: Path) -> None:
    victim = next((project / "images" / "4").iterdir())
    victim.write_bytes(b"\x89PNG\r\n\x1a\n broken")
    for path in (project / "images" / "7").iterdir():
        path.unlink()
    assert audit("--model nets_of_user:grey --weights grey.pt") == 0
    told = " ".join(summary()["audit"]["notes"])
    assert f"1 of 18 image files cannot be read and are left out: 4/{victim.name}" in told
    assert "1 of 10 class folders has no images: 7" in told


def test_a_table_of_labels_and_the_order_of_classes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat, words = project / "flat", ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    flat.mkdir()
    rows = []
    for path in sorted((project / "images").rglob("*.png")):
        rows.append(f"{path.name},{words[int(path.parent.name)]}")
        path.rename(flat / path.name)
    (flat / "labels.csv").write_text("\n".join(["file,label", *rows]))
    (project / "names.txt").write_text("\n".join(words))
    assert audit("--model nets_of_user:grey --weights grey.pt --data flat --classes names.txt") == 0
    assert summary()["natural_accuracy"] >= 0.8
    assert summary()["class_names"] == words
    capsys.readouterr()
    (project / "names.txt").write_text("\n".join(words[:9]))
    assert audit("--model nets_of_user:grey --weights grey.pt --data flat --classes names.txt", "b") == 2
    assert "expected 10 class names, one per output of the network, got 9 in names.txt" in capsys.readouterr().err
    (project / "names.txt").write_text("\n".join([*words[:9], "ten"]))
    assert audit("--model nets_of_user:grey --weights grey.pt --data flat --classes names.txt", "b") == 2
    assert "got 'nine'" in capsys.readouterr().err


def test_an_npz_without_a_split_is_used_whole(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = hf.data.load("digits", split="test")
    np.savez(project / "d.npz", x=digits.x[:12].numpy(), y=digits.y[:12].numpy())
    assert audit("--model nets_of_user:grey --weights grey.pt --data d.npz") == 0
    assert "12 images of 1 x 8 x 8, from npz d.npz, split all" in capsys.readouterr().out
    np.savez(project / "x.npz", x=digits.x[:12].numpy())
    assert audit("--model nets_of_user:grey --weights grey.pt --data x.npz --labels predicted", "b") == 0
    assert summary("b")["natural_accuracy"] == 1.0
    capsys.readouterr()
    assert audit("--model nets_of_user:grey --weights grey.pt --data d.npz --split test", "c") == 2
    said = capsys.readouterr().err
    assert "pass --holdout 0.2 to hold out a fifth for testing, or --split all" in said
    assert "holdout=" not in said


def test_sizes_crops_and_holdout(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for at, path in enumerate(sorted((project / "images").rglob("*.png"))):
        Image.open(path).resize((24, 16 + at)).save(path)
    line = "--model nets_of_user:Colour --weights colour.pth --holdout 0.5 --normalize none"
    assert audit(line) == 2
    assert "pass --size N --crop N to scale them" in capsys.readouterr().err
    assert audit(f"{line} --size 10 --crop 8") == 0
    said = capsys.readouterr().out
    assert "10 images of 3 x 8 x 8" in said
    assert "4 images attacked, drawn from 10; accuracy" in said
    assert "proportions" not in said
    assert audit(f"{line} --size 8", out="squeezed") == 0
    assert "images have other proportions than 8 x 8 and are squeezed or stretched" in capsys.readouterr().out


@pytest.mark.parametrize("maps", ["--map gradcam", "--maps ig gradcam++ gradcam"])
def test_the_layer_of_gradcam(project: Path, capsys: pytest.CaptureFixture[str], maps: str) -> None:
    line = f"--model nets_of_user:Bypassed --labels predicted {maps}"
    assert audit(line) == 2
    assert "name the layer to use with --layer, one of net.conv" in capsys.readouterr().err
    assert audit(f"{line} --layer conv") == 0
    assert summary()["audit"]["settings"]["layer"] == "conv"
    capsys.readouterr()
    assert audit(f"{line} --layer nowhere", out="other") == 2
    assert "expected --layer to be the name of one module" in capsys.readouterr().err
    assert audit("--model nets_of_user:Bypassed --layer conv", out="other") == 2
    assert "expected --layer only with the maps gradcam and gradcam++, got ig" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "second"),
    [("--size 10 --crop 8", "--size 12 --crop 8"), ("--channels rgb", "--channels grey"), ("--size 10 --crop 8", "")],
)
def test_other_pixels_are_other_images(
    project: Path, capsys: pytest.CaptureFixture[str], first: str, second: str
) -> None:
    digits = hf.data.load("digits", split="test")
    fading = torch.tensor([1.0, 0.5, 0.25]).reshape(1, 3, 1, 1)  # grey and then three channels is another image
    np.savez(project / "d.npz", x=(digits.x[:12] * fading).byte().numpy(), y=digits.y[:12].numpy())
    line = "--model nets_of_user:Colour --weights colour.pth --data d.npz"
    assert audit(f"{line} {first}") == 0
    rows = Path("out/examples.csv").read_bytes()
    assert audit(f"{line} {first}") == 0
    capsys.readouterr()
    assert audit(f"{line} {second}") == 2
    assert "expected out to hold rows of this evaluation, got rows with another images" in capsys.readouterr().err
    assert Path("out/examples.csv").read_bytes() == rows


def test_images_as_they_were_loaded_keep_their_checksum(project: Path) -> None:
    from holdfast.experiment.audit_inputs import ImageOptions, open_images
    from holdfast.experiment.networks import open_model

    digits, grey = hf.data.load("digits", split="test"), open_model("nets_of_user:grey")
    for options in (ImageOptions(), ImageOptions(size=8), ImageOptions(channels="grey")):
        assert open_images(Path("digits"), grey, options).checksum == digits.checksum


def test_a_saved_transformers_model_brings_its_own_preprocessing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = outside("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    backwards = {at: str(9 - at) for at in range(10)}
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=8, id2label=backwards)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.ViTForImageClassification(config).save_pretrained(project / "vit")
    record = {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3, "resample": 3}
    (project / "vit" / "preprocessor_config.json").write_text(json.dumps(record))
    assert audit("--model hf:vit --labels predicted --map gradient") == 0
    said = capsys.readouterr().out
    assert "20 images of 3 x 16 x 16" in said
    assert "resized to 16 x 16 (bicubic), mean 0.5, 0.5, 0.5, std 0.25, 0.25, 0.25" in said
    assert summary()["class_names"] == list(backwards.values())
    from holdfast.experiment.audit_inputs import ImageOptions, open_images
    from holdfast.experiment.networks import open_model

    images = open_images(Path("images"), open_model("hf:vit"), ImageOptions())
    assert images.class_names == tuple(backwards.values())
    assert images.y[:2].tolist() == [9, 9]  # the folder called 0 is the last output


def test_a_pretrained_network_that_nobody_here_wrote(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RNet of facenet-pytorch: really trained, returns boxes and probabilities, and has its weights in a .pt file."""
    facenet = outside("facenet_pytorch")
    weights = Path(facenet.__file__).parent / "data" / "rnet.pt"
    (project / "faces.py").write_text(
        "from facenet_pytorch.models.mtcnn import RNet\n\n\ndef rnet():\n    return RNet(pretrained=False)\n"
    )
    noise = np.random.default_rng(0)
    for at in range(4):
        (project / "crops").mkdir(exist_ok=True)
        pixels = noise.integers(0, 256, (30 + at, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(project / "crops" / f"{at}.png")
    line = f"--model faces:rnet --weights {weights} --data crops --size 24 --crop 24 --labels predicted"
    line += " --mean 0.5 --std 0.502 --map gradient"
    assert audit(line) == 2
    assert "choose the logits with --output 0 or --output 1" in capsys.readouterr().err
    assert audit(f"{line} --output 1") == 0
    assert "the network returns probabilities" in " ".join(summary()["audit"]["notes"])
    assert summary()["natural_accuracy"] == 1.0


# ---- what cannot work: one sentence, exit code 2 ----


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
