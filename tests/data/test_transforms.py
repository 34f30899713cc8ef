"""Equalisation against a plain oracle; made examples as a function of (seed, id)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from torch import Tensor

from holdfast import data
from holdfast.data.transforms import balance, equalize, mirror, resize
from holdfast.data.transforms.class_balance import FIRST_MADE_ID, projective, random_maps, warp
from holdfast.data.transforms.histogram import equalize_images
from holdfast.errors import InputError
from holdfast.rng import make_keys

DIGITS = data.load("digits", split="test")


def oracle(channel: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """One channel, level by level, as the module's docstring says."""
    counts = np.bincount(channel.ravel(), minlength=256)
    lowest = int(np.flatnonzero(counts)[0])
    if counts[lowest] == channel.size:
        return channel
    scale = np.float32(255) / np.float32(channel.size - counts[lowest])
    table = [np.rint(np.float32(counts[lowest + 1 : level + 1].sum()) * scale) for level in range(256)]
    return np.array(table, np.uint8)[channel]


@given(arrays(np.uint8, (3, 2, 4, 5), elements=st.integers(0, 255) | st.integers(100, 103)))
def test_equalize_equals_the_oracle(x: NDArray[np.uint8]) -> None:
    expected = np.array([[oracle(channel) for channel in image] for image in x])
    np.testing.assert_array_equal(equalize_images(torch.from_numpy(x)).numpy(), expected)


def test_equalize_known_values() -> None:
    ramp = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    assert torch.equal(equalize_images(ramp), ramp)  # already flat
    flat = torch.full((1, 1, 4, 4), 9, dtype=torch.uint8)
    assert torch.equal(equalize_images(flat), flat)
    steps = torch.tensor([3, 3, 3, 5, 200, 200, 201, 201], dtype=torch.uint8).reshape(1, 1, 2, 4)
    assert equalize_images(steps).flatten().tolist() == [0, 0, 0, 51, 153, 153, 255, 255]


def test_equalize_dataset() -> None:
    out = equalize(DIGITS)
    assert torch.equal(out.x, equalize_images(DIGITS.x))
    assert (out.source, out.checksum) == ("scikit-learn | equalize", DIGITS.checksum)
    named = data.load("digits", split="test", transforms=("equalize",))
    assert torch.equal(named.x, out.x)


def test_balance_fills_each_class_and_keeps_the_originals() -> None:
    train = replace(DIGITS, split="train")
    out = balance(train, to=50, seed=1)
    assert torch.bincount(out.y).tolist() == [50] * 10
    assert torch.equal(out.x[: len(train)], train.x)
    assert torch.equal(out.ids[: len(train)], train.ids)
    assert (out.ids[len(train) :] >= FIRST_MADE_ID).all()
    assert len(set(out.ids.tolist())) == len(out)
    assert out.source == "scikit-learn | balance(to=50, seed=1)"


def made(dataset: data.Dataset, **settings: int) -> dict[int, Tensor]:
    out = balance(dataset, **settings)
    return dict(zip(out.ids.tolist(), out.x, strict=True))


def test_made_examples_depend_on_seed_and_id_only(monkeypatch: pytest.MonkeyPatch) -> None:
    train = replace(DIGITS, split="train")
    few, many = made(train, to=45, seed=1), made(train, to=60, seed=1)
    assert few.keys() < many.keys()
    assert all(torch.equal(x, many[key]) for key, x in few.items())
    monkeypatch.setattr("holdfast.data.transforms.class_balance._CHUNK", 64 * 7)  # seven images at once
    chunked = made(train, to=45, seed=1)
    assert all(torch.equal(x, chunked[key]) for key, x in few.items())
    other = made(train, to=45, seed=2)
    assert any(not torch.equal(x, other[key]) for key, x in few.items())


def test_default_is_the_largest_class_and_larger_classes_stay() -> None:
    train = replace(DIGITS, split="train")
    assert torch.bincount(balance(train).y).tolist() == [37] * 10
    assert torch.bincount(balance(train, to=36).y).max() == 37
    named = data.load("digits", transforms=["balance:to=150,seed=3", "equalize"])
    assert len(named) == 1500
    assert named.source.endswith("balance(to=150, seed=3) | equalize")


def test_ranges_of_the_random_maps() -> None:
    """The corners move by at most 0.24 sides (warp), half a diagonal times 15 degrees (rotation) and 2.5 pixels."""
    maps = random_maps(make_keys(0, torch.arange(2000)), 32, 32)
    centre = torch.tensor([15.5, 15.5, 1.0], dtype=torch.float64)
    seen = maps @ centre
    moved = seen[:, :2] / seen[:, 2:] - 15.5
    assert moved.abs().max() < 32 * 0.3
    assert moved.mean(0).abs().max() < 0.5
    assert moved.std(0).min() > 1


def test_projective_maps_hit_their_points() -> None:
    source = torch.rand(5, 4, 2, dtype=torch.float64) + torch.tensor([[0, 0], [0, 5], [5, 5], [5, 0.0]])
    target = torch.rand(5, 4, 2, dtype=torch.float64) + torch.tensor([[0, 0], [0, 5], [5, 5], [5, 0.0]])
    points = torch.cat([source, torch.ones(5, 4, 1)], -1) @ projective(source, target).transpose(1, 2)
    torch.testing.assert_close(points[..., :2] / points[..., 2:], target)


def test_warp_by_whole_pixels_and_identity() -> None:
    x = torch.arange(2 * 3 * 4 * 5, dtype=torch.uint8).reshape(2, 3, 4, 5)
    identity = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    assert torch.equal(warp(x, identity), x)
    right = identity.clone()
    right[:, 0, 2] = -1  # pixel (x, y) is read from (x - 1, y): the image moves right, its left edge is repeated
    assert torch.equal(warp(x, right), torch.cat([x[..., :1], x[..., :-1]], -1))


def test_mirror_adds_each_image_with_an_id_of_its_own() -> None:
    train = replace(DIGITS, split="train")
    out = mirror(train)
    count = len(train)
    assert torch.equal(out.x[:count], train.x)
    assert out.x[count][0, 0].tolist() == train.x[0][0, 0].tolist()[::-1]
    assert torch.equal(out.y[count:], train.y)
    assert len(set(out.ids.tolist())) == 2 * count
    both = data.load("digits", transforms=["balance:to=150", "mirror"])
    assert len(set(both.ids.tolist())) == len(both) == 3000  # also with made examples
    with pytest.raises(InputError, match="a training split to mirror"):
        mirror(DIGITS)


def test_resize_changes_the_size_only() -> None:
    flat = replace(DIGITS, x=torch.full_like(DIGITS.x, 7))
    out = resize(flat, to=4)
    assert out.x.shape[1:] == (1, 4, 4)
    assert (out.x == 7).all()
    assert out.source == "scikit-learn | resized to 4 x 4"
    assert torch.equal(out.ids, DIGITS.ids)
    assert data.load("digits", split="test", transforms="resize:to=16").image_shape == (1, 16, 16)


def test_refusals() -> None:
    with pytest.raises(InputError, match="a training split"):
        balance(DIGITS)
    train = replace(DIGITS, split="train")
    with pytest.raises(InputError, match="at least one example of each class"):
        balance(train.subset([0]))
    with pytest.raises(
        InputError, match=r"a transform \(equalize, balance, mirror, resize, rgb, grey\), got 'equalise'"
    ):
        data.load("digits", transforms="equalise")
    for text in ("balance:too=3", "balance:to=many", "equalize:to=3"):
        with pytest.raises(InputError, match="as key=number"):
            data.load("digits", transforms=(text,))
