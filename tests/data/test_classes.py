"""Which output of a network belongs to which class."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast import data
from holdfast.data.classes import fit_to_outputs, ordered_like, read_class_names
from holdfast.data.formats.geometry import Geometry
from holdfast.data.loading import default_split
from holdfast.data.preprocessing import NORMALISATIONS, Preprocessing
from holdfast.data.transforms.image_form import with_channels, with_geometry
from holdfast.errors import DataError, InputError


def made(names: tuple[str, ...], *, channels: int = 1) -> data.Dataset:
    x = torch.randint(0, 256, (len(names), channels, 6, 4), dtype=torch.uint8)
    return data.from_tensors(x, torch.arange(len(names)), class_names=names)


def test_names_decide_the_order() -> None:
    outputs = ["tench, Tinca tinca", "x", "Great-White shark", "cat"]
    found = ordered_like(made(("cat", "great white shark", "Tinca_tinca")), outputs)
    assert found.y.tolist() == [3, 2, 0]
    assert found.class_names[3] == "cat"


def test_whole_names_win_over_parts_of_a_list() -> None:
    assert ordered_like(made(("crane",)), ["bird, crane", "crane"]).y.tolist() == [1]


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"network's \(cat, dog\), got 'cta' and 1 more; did you mean 'cat'\?"):
        ordered_like(made(("cta", "wolf")), ["cat", "dog"])
    empty = made(("cat", "wolf")).subset([0])  # a class without images needs no place
    assert ordered_like(empty, ["dog", "cat"]).y.tolist() == [1]


def test_classes_without_names_keep_their_labels() -> None:
    found = ordered_like(made(("0", "1")), ["a", "b", "c"])
    assert (found.y.tolist(), found.class_names) == ([0, 1], ("a", "b", "c"))


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("names.txt", "cat\n\n dog \n", ("cat", "dog")),
        ("names.json", '["cat", "dog"]', ("cat", "dog")),
        ("names.json", '{"1": "dog", "0": "cat"}', ("cat", "dog")),
        ("names.json", '{"0": ["n01", "cat"], "1": ["n02", "dog"]}', ("n01, cat", "n02, dog")),
    ],
)
def test_files_of_names(tmp_path: Path, name: str, text: str, names: tuple) -> None:
    (tmp_path / name).write_text(text)
    assert read_class_names(tmp_path / name) == names


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "cat\ndog\ncat\n", "found 'cat' twice"),
        ("a.txt", "cat\n", "found 1 names"),
        ("a.json", "{", "found something else"),
        ("a.json", "[1, 2]", "found something else"),
        ("a.json", '{"cat": 0, "dog": 1}', "found something else"),
        ("a.json", "[" * 100_000, "found something else"),
    ],
)
def test_bad_files_of_names(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_class_names(tmp_path / name)
    with pytest.raises(DataError, match="found none"):
        read_class_names(tmp_path / "missing")


def test_more_and_fewer_classes_than_outputs() -> None:
    with pytest.raises(InputError, match=r"at most 2 classes, .* got 3 \(a, b, c\); .* num_classes=3"):
        fit_to_outputs(made(("a", "b", "c")), 2)
    with pytest.raises(InputError, match=r"a class for each of the 5 outputs .* classes=FILE"):
        fit_to_outputs(made(("a", "b", "c")), 5)
    same, (note,) = fit_to_outputs(made(("0", "1")), 5)
    assert same.y.tolist() == [0, 1]
    assert "5 outputs and the data 2 classes" in note
    moved, (note,) = fit_to_outputs(made(("0", "3", "7")), 8)
    assert (moved.y.tolist(), moved.num_classes) == ([0, 3, 7], 8)
    assert "places among the 8 outputs" in note


def test_numbers_in_alphabetical_order_are_said() -> None:
    names = tuple(sorted(map(str, range(11))))
    assert "(0, 1, 10, 2, ...)" in fit_to_outputs(made(names), 11)[1][0]
    assert fit_to_outputs(made(tuple("abc")), 3)[1] == ()
    assert fit_to_outputs(made(("01", "02", "10")), 3)[1] == ()


# ---- the form of the images ----


def test_channels_as_pillow_converts_them() -> None:
    colour = made(("0", "1", "2"), channels=3)
    grey = with_channels(colour, "grey")
    for image, converted in zip(colour.x, grey.x, strict=True):
        theirs = np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L"))
        np.testing.assert_array_equal(converted[0].numpy(), theirs)
    again = with_channels(grey, "rgb")
    assert torch.equal(again.x[:, 1], grey.x[:, 0])
    assert again.source.endswith("| grey | rgb")
    assert with_channels(again, "rgb") is again
    floats = data.from_tensors(colour.x.float() / 255, colour.y)
    torch.testing.assert_close(with_channels(floats, "grey").x * 255, grey.x.float(), rtol=0, atol=0.51)
    with pytest.raises(InputError, match="channels to be one of rgb, grey"):
        with_channels(colour, "cmyk")
    assert torch.equal(data.transforms.apply(colour, ["grey"]).x, grey.x)


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_are_resized_like_files(channels: int) -> None:
    images = made(("0", "1"), channels=channels)
    geometry = Geometry(size=10, crop=8)
    found = with_geometry(images, geometry)
    assert found.image_shape == (channels, 8, 8)
    for image, resized in zip(images.x, found.x, strict=True):
        pixels = image.permute(1, 2, 0).numpy()
        theirs = geometry.apply(Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels), "image")
        np.testing.assert_array_equal(resized.permute(1, 2, 0).numpy(), np.asarray(theirs).reshape(8, 8, channels))
    assert with_geometry(images, Geometry()) is images
    assert with_geometry(images, Geometry(size=(6, 4))) is images


def test_named_normalisations_are_those_of_the_datasets() -> None:
    assert NORMALISATIONS["imagenet"][0] == (0.485, 0.456, 0.406)
    shown = str(Preprocessing(size=256, crop=224, mean=(0.5,), std=(0.25,)))
    assert shown == "shorter side 256 (bilinear), centre crop 224, mean 0.5, std 0.25"
    assert str(Preprocessing(size=(8, 6))) == "resized to 8 x 6 (bilinear)"
    assert str(Preprocessing()) == "none"


def test_the_part_to_measure_on(tmp_path: Path) -> None:
    x, y = np.zeros((4, 3, 3), np.uint8), np.arange(4)
    np.savez(tmp_path / "whole.npz", x=x, y=y)
    np.savez(tmp_path / "split.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (tmp_path / "a" / "cat").mkdir(parents=True)
    for part in ("train", "test"):
        (tmp_path / "b" / part).mkdir(parents=True)
    found = {name: default_split(tmp_path / name) for name in ("whole.npz", "split.npz", "a", "b")}
    assert found == {"whole.npz": "all", "split.npz": "test", "a": "all", "b": "test"}


def test_too_many_classes_names_the_empty_folders() -> None:
    kept = made(("cat", "dog", "zebra")).subset([0, 1])
    with pytest.raises(InputError, match=r"at most 2 classes, .* delete the class folders without images \(zebra\)"):
        fit_to_outputs(kept, 2)
