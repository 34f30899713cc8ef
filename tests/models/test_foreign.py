"""Networks from elsewhere, real ones where they are installed: own functions, transformers, timm, torchvision."""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.outside import outside
from torch import nn

import holdfast as hf
from holdfast.data.formats.geometry import Geometry
from holdfast.errors import DataError, InputError
from holdfast.experiment.networks import ModelOptions, open_model
from holdfast.models.foreign.registry import build_foreign
from holdfast.models.foreign.transformers_folder import preprocessing_of

OWN = """
from torch import nn

def build(num_classes=4, width=2):
    assert width % 2 == 0, "width must be even"
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.ReLU(), nn.Linear(width, num_classes))

def silent():
    raise KeyError

def number():
    return 3

ready = build()
LIMIT = 4
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_nets.py").write_text(OWN)
    (tmp_path / "raising.py").write_text("raise RuntimeError('no such device')\n")
    (tmp_path / "needy.py").write_text("import package_that_nobody_has\n")
    monkeypatch.chdir(tmp_path)
    for name in ("own_nets", "raising", "needy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_own_function_with_arguments(here: Path) -> None:
    path = list(sys.path)
    model = open_model("own_nets:build", ModelOptions(arguments={"num_classes": 7, "width": 6})).network
    assert model(torch.rand(2, 3, 2, 2)).shape == (2, 7)
    assert model.net[1].out_features == 6
    assert not model.training
    assert sys.path == path
    assert hf.load("own_nets:build", num_classes=5).net[3].out_features == 5
    assert isinstance(open_model("own_nets:ready").network.net, nn.Sequential)


def test_the_seed_draws_the_weights(here: Path) -> None:
    nets = [build_foreign("own_nets:build", options={}, offered={}, seed=seed).net for seed in (0, 0, 1)]
    assert torch.equal(nets[0][1].weight, nets[1][1].weight)
    assert not torch.equal(nets[0][1].weight, nets[2][1].weight)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("own_nets:build", {"width": 3}, r"own_nets:build\(width=3\) .* got AssertionError: width must be even"),
        ("own_nets:build", {"depth": 3}, r"got TypeError: .*depth.*; pass its arguments as key=value"),
        ("own_nets:silent", {}, "got KeyError: no message"),
        ("own_nets:number", {}, "to return a torch.nn.Module, got int"),
        ("own_nets:LIMIT", {}, "to be a function that builds a network, got int"),
        ("own_nets:biuld", {}, r"which own_nets does not have; own_nets has build, silent, number"),
        ("own_nets.py:build", {}, "write own_nets:build"),
        ("./sub/nets.py:build", {}, "write sub.nets:build"),
        ("raising:build", {}, "a module raising that can be imported, got RuntimeError: no such device"),
        ("needy:build", {}, "a module needy that can be imported, got ModuleNotFoundError: .*package_that_nobody_has"),
        ("nowhere:build", {}, "a function package.module:function, got nowhere:build"),
        (":build", {}, "a function package.module:function"),
        ("paper-cnn", {}, "a model as package.module:function, timm:"),
    ],
)
def test_own_functions_that_fail(here: Path, name: str, arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_model(name, ModelOptions(arguments=arguments))


def test_normalisation(here: Path) -> None:
    named = open_model("own_nets:build", ModelOptions(normalize="imagenet")).network
    assert named.mean.tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert open_model("own_nets:build", ModelOptions(normalize="none")).network.mean is None
    assert open_model("own_nets:build", ModelOptions(mean=(0.5,), std=(1.0,))).network.std.tolist() == [1.0]
    for options, message in (
        ({"mean": (0.5,)}, "mean and std together, got mean alone; pass std=1"),
        ({"std": (0.5,)}, "mean and std together, got std alone; pass mean=0"),
        ({"mean": (128.0,), "std": (58.0,)}, r"mean for pixels in \[0, 1\], got 128.0; divide it by 255: mean=0.502"),
        ({"normalize": "imagenet", "mean": (0.5,), "std": (0.5,)}, "normalize, or mean and std, got both"),
        ({"normalize": "mnist"}, "normalize to be one of none, imagenet, cifar10"),
        ({"builder": "own_nets:build"}, "a builder only with a run directory"),
    ):
        with pytest.raises(InputError, match=message):
            open_model("own_nets:build", ModelOptions(**options))


# ---- tuples and dicts ----


class Pieces(nn.Module):
    """Returns boxes and scores, as detectors do."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.last = form, nn.Linear(12, 3)

    def forward(self, x: torch.Tensor):
        boxes, scores = x.flatten(1)[:, :4, None], self.last(x.flatten(1))
        return (boxes, scores) if self.form == "tuple" else {"boxes": boxes, "scores": scores}


@pytest.mark.parametrize(("form", "key"), [("tuple", 1), ("dict", "scores")])
def test_the_logits_among_several_outputs(form: str, key: int | str) -> None:
    x, net = torch.rand(2, 3, 2, 2), Pieces(form)
    with pytest.raises(InputError, match=f"got a {form} .*; choose the logits with output={key!r}, or wrap"):
        hf.Classifier(net)(x)
    assert torch.equal(hf.Classifier(net, output=key)(x), net.last(x.flatten(1)))
    with pytest.raises(InputError, match="that returns a part 7, got a"):
        hf.Classifier(net, output=7)(x)


# ---- transformers ----


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    """A small vision transformer with its preprocessing, as `save_pretrained` writes them."""
    transformers = outside("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    names = {0: "zebra", 1: "ant", 2: "great white shark"}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8, id2label=names)
    folder = tmp_path / "vit"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.ViTForImageClassification(config).save_pretrained(folder)
        processor = transformers.ViTImageProcessorPil if hasattr(transformers, "ViTImageProcessorPil") else None
        if processor is None:
            pytest.skip("this version of transformers has no image processor without torchvision")
        processor(size={"height": 32, "width": 32}, image_mean=[0.4, 0.5, 0.6]).save_pretrained(folder)
    return folder


def test_transformers_folder_equals_transformers_itself(vit: Path) -> None:
    """Same image file, same logits as with the processor and the model of the package."""
    transformers = outside("transformers")
    opened = open_model(f"hf:{vit}")
    assert opened.class_names == ("zebra", "ant", "great white shark")
    pixels = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        there = transformers.ViTImageProcessorPil.from_pretrained(vit)(image, return_tensors="pt")["pixel_values"]
        theirs = transformers.ViTForImageClassification.from_pretrained(vit).eval()(there).logits
        ours = np.asarray(opened.preprocessing.geometry.apply(image, "image"))
        found = opened.network(torch.from_numpy(ours.copy()).permute(2, 0, 1)[None].float() / 255)
    torch.testing.assert_close(found, theirs, rtol=1e-4, atol=1e-5)


def test_transformers_folder_without_a_trained_head(vit: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(vit / "model.safetensors")
    head = {name: state.pop(name) for name in ("classifier.weight", "classifier.bias")}
    save_file(state, vit / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"found no classifier\.bias, classifier\.weight \(2 missing\)"):
        open_model(f"hf:{vit}")
    assert len(head) == 2


def test_transformers_folder_with_code_in_it_is_refused(vit: Path) -> None:
    config = json.loads((vit / "config.json").read_text())
    config |= {
        "model_type": "planted",
        "auto_map": {"AutoConfig": "planted.C", "AutoModelForImageClassification": "planted.N"},
    }
    (vit / "config.json").write_text(json.dumps(config))
    (vit / "planted.py").write_text(f"from pathlib import Path\nPath({str(vit / 'ran')!r}).touch()\n")
    with pytest.raises(InputError, match="an image classifier of transformers in"):
        open_model(f"hf:{vit}")
    assert not (vit / "ran").exists()


def test_transformers_folder_with_other_weights_and_missing_parts(vit: Path, tmp_path: Path) -> None:
    before = open_model(f"hf:{vit}").network
    torch.save({f"module.{k}": v * 2 for k, v in before.net.state_dict().items()}, tmp_path / "w.bin")
    after = open_model(f"hf:{vit}", ModelOptions(weights=tmp_path / "w.bin")).network
    assert torch.equal(after.net.classifier.weight, before.net.classifier.weight * 2)
    os.remove(vit / "preprocessor_config.json")
    os.remove(vit / "model.safetensors")
    opened = open_model(f"hf:{vit}")
    assert "no preprocessor_config.json" in opened.notes[0]
    assert "no weights" in opened.notes[1]
    assert opened.preprocessing.size == (32, 32)
    assert opened.network.mean is None
    with pytest.raises(InputError, match=r"a folder with config\.json after hf:"):
        open_model(f"hf:{tmp_path}")
    with pytest.raises(DataError, match=f"expected a run directory .*; write hf:{vit}"):
        open_model(str(vit))


@pytest.mark.parametrize(
    ("record", "size", "crop"),
    [
        ({"size": {"height": 20, "width": 24}}, (20, 24), None),
        (
            {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}},
            256,
            (224, 224),
        ),
        ({"size": 256, "do_center_crop": True, "crop_size": 224}, 256, (224, 224)),
        ({"size": 224}, (224, 224), None),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, 256, 224),
        ({"size": {"shortest_edge": 384}, "crop_pct": 1.0}, (384, 384), None),
        ({"size": {"shortest_edge": 96}}, 96, 96),
        ({"do_resize": False, "size": 224}, None, None),
        ({}, None, None),
    ],
)
def test_geometry_of_a_record(record: dict, size: object, crop: object) -> None:
    found = preprocessing_of({"do_normalize": False, **record})
    assert (found.size, found.crop, found.mean, found.std) == (size, crop, None, None)


@pytest.mark.parametrize(
    "record",
    [
        {"image_mean": [0.5, 0.25, 0.1], "image_std": [0.5, 0.2, 0.3]},
        {"do_rescale": False, "image_mean": [127.5], "image_std": [60.0]},
        {"rescale_factor": 1 / 127.5, "rescale_offset": True, "do_normalize": False},
    ],
)
def test_normalisation_of_a_record(record: dict) -> None:
    """By hand, step by step, as the processors of transformers define it."""
    pixels = torch.tensor([0.0, 51.0, 255.0])
    value = pixels * record.get("rescale_factor", 1 / 255) if record.get("do_rescale", True) else pixels
    value = value - 1 if record.get("rescale_offset") else value
    for channel, mean in enumerate(record.get("image_mean", [0.0])):
        theirs = (value - mean) / record.get("image_std", [1.0])[channel]
        found = preprocessing_of(record)
        torch.testing.assert_close((pixels / 255 - found.mean[channel]) / found.std[channel], theirs)


def test_records_that_cannot_be_followed() -> None:
    with pytest.raises(InputError, match="got do_flip_channel_order"):
        preprocessing_of({"do_flip_channel_order": True})
    for record in ({"size": {"max": 3}}, {"resample": 17}, {"image_mean": "a", "image_std": "b"}, {"size": []}):
        with pytest.raises(DataError, match=r"cannot read preprocessor_config\.json"):
            preprocessing_of(record)


# ---- timm and torchvision ----


def test_timm() -> None:
    timm = outside("timm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_model("timm:resnet10t", ModelOptions(arguments={"num_classes": 5}))
        record = timm.data.resolve_model_data_config(opened.network.net)
        theirs = timm.data.create_transform(**record, is_training=False)
        image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (250, 300, 3), dtype=np.uint8))
        ours = np.asarray(opened.preprocessing.geometry.apply(image, "image"))
    assert opened.network(torch.rand(1, 3, 64, 64)).shape == (1, 5)
    normalised = opened.network._normalised(torch.from_numpy(ours.copy()).permute(2, 0, 1)[None].float() / 255)
    torch.testing.assert_close(normalised[0], theirs(image), rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="a network of timm, got 'resnet9999'"):
        open_model("timm:resnet9999")


def test_torchvision() -> None:
    torchvision = outside("torchvision")
    opened = open_model("torchvision:resnet18", ModelOptions(arguments={"num_classes": 5}, normalize="cifar10"))
    assert opened.network(torch.rand(1, 3, 32, 32)).shape == (1, 5)
    assert opened.network.mean[0] == pytest.approx(0.4914)
    opened = open_model("torchvision:resnet18")
    theirs = torchvision.models.ResNet18_Weights.DEFAULT.transforms()
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (250, 301, 3), dtype=np.uint8))
    ours = np.asarray(opened.preprocessing.geometry.apply(image, "image"))
    normalised = opened.network._normalised(torch.from_numpy(ours.copy()).permute(2, 0, 1)[None].float() / 255)
    torch.testing.assert_close(normalised[0], theirs(image), rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match=r"a network of torchvision\.models, got 'resnet19'"):
        open_model("torchvision:resnet19")


@pytest.mark.parametrize("shape", [(250, 301), (301, 250), (224, 224), (90, 640), (257, 256)])
@pytest.mark.parametrize(("size", "crop"), [(64, 48), (64, 63), (32, 32)])
def test_geometry_equals_torchvision(shape: tuple[int, int], size: int, crop: int) -> None:
    torchvision = outside("torchvision")
    transforms = torchvision.transforms
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8))
    theirs = transforms.Compose([transforms.Resize(size), transforms.CenterCrop(crop)])(image)
    ours = Geometry(size=size, crop=crop).apply(image, "image")
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_a_missing_package_is_one_sentence(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # as Python marks a module that is not there
    with pytest.raises(InputError, match=f"the package {package}, got .*; install it with: pip install {package}"):
        open_model(f"{package}:resnet18")
