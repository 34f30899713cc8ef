"""`holdfast audit` with the networks, weights and images that people have."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.commands.audit_material import audit, make_project, summary
from tests.outside import outside

import holdfast as hf


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


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


@pytest.mark.parametrize(("name", "side", "output"), [("rnet", 24, 1), ("onet", 48, 2)])
def test_pretrained_networks_that_nobody_here_wrote(
    project: Path, capsys: pytest.CaptureFixture[str], name: str, side: int, output: int
) -> None:
    """Those of facenet-pytorch: really trained, return boxes and probabilities, and have their weights in .pt files."""
    facenet = outside("facenet_pytorch")
    weights = Path(facenet.__file__).parent / "data" / f"{name}.pt"
    (project / "faces.py").write_text(
        "from facenet_pytorch.models import mtcnn\n\n"
        "def rnet():\n    return mtcnn.RNet(pretrained=False)\n\n"
        "def onet():\n    return mtcnn.ONet(pretrained=False)\n"
    )
    noise = np.random.default_rng(0)
    for at in range(4):
        (project / "crops").mkdir(exist_ok=True)
        pixels = noise.integers(0, 256, (side + 6 + at, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(project / "crops" / f"{at}.png")
    line = f"--model faces:{name} --weights {weights} --data crops --size {side} --crop {side} --labels predicted"
    line += " --mean 0.5 --std 0.502 --map gradient"
    assert audit(line) == 2
    choices = " or ".join(f"--output {at}" for at in range(output + 1))
    assert f"choose the logits with {choices}" in capsys.readouterr().err
    assert audit(f"{line} --output {output}") == 0
    assert "the network returns probabilities" in " ".join(summary()["audit"]["notes"])
    assert summary()["natural_accuracy"] == 1.0
