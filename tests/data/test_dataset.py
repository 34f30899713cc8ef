"""Datasets, their subsets, and the arguments of `load`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast import data
from holdfast.data.subsets import shares, stratified_indices
from holdfast.errors import InputError

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(sum)


@given(COUNTS, st.data())
def test_shares_are_whole_proportional_and_sum_up(counts: list[int], draw: st.DataObject) -> None:
    n = draw.draw(st.integers(0, sum(counts)))
    parts = shares(np.array(counts), n)
    exact = np.array(counts) * n / sum(counts)
    assert parts.sum() == n
    assert (np.abs(parts - exact) < 1).all()
    assert (parts <= counts).all()


@given(COUNTS, st.integers(0, 2**31), st.data())
def test_stratified_indices(counts: list[int], seed: int, draw: st.DataObject) -> None:
    labels = np.array(draw.draw(st.permutations(np.repeat(np.arange(len(counts)), counts).tolist())))
    n = draw.draw(st.integers(1, len(labels)))
    chosen = stratified_indices(labels, n, seed)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    np.testing.assert_array_equal(np.bincount(labels[chosen], minlength=len(counts)), shares(np.array(counts), n))


def split_mix(z: int) -> int:
    """The finaliser of SplitMix64 in plain integers."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def plain_key(*numbers: int) -> int:
    """The key of (seed, stream, id), as a signed integer, without tensors."""
    key, *rest = numbers
    for number in rest:
        key = split_mix((split_mix(key) + 0x9E3779B97F4A7C15 + number) % 2**64)
    return key - 2**64 if key >= 2**63 else key


def test_choice_is_the_same_everywhere() -> None:
    """Against plain integers and against fixed numbers: a platform or a change that moves a subset shows here."""
    by_hash = sorted(range(30), key=lambda i: plain_key(7, 0x5B5E75, i))
    firsts = [[i for i in by_hash if i % 3 == label][:2] for label in range(3)]
    chosen = stratified_indices(np.arange(30) % 3, 6, seed=7).tolist()
    assert chosen == sorted(i for first in firsts for i in first)
    assert chosen == [0, 8, 12, 13, 19, 26]


def test_choice_follows_ids_not_positions() -> None:
    digits = data.load("digits", split="test")
    turned = digits.subset(range(len(digits) - 1, -1, -1))
    assert set(digits.stratified(50, seed=3).ids.tolist()) == set(turned.stratified(50, seed=3).ids.tolist())
    assert digits.stratified(50, seed=3).ids.tolist() != digits.stratified(50, seed=4).ids.tolist()


def test_subset_keeps_ids_and_origin() -> None:
    digits = data.load("digits", split="test")
    part = digits.subset([5, 2])
    assert part.ids.tolist() == [5, 2]
    assert torch.equal(part.x[0], digits.x[5])
    assert (part.checksum, part.num_classes) == (digits.checksum, 10)
    with pytest.raises(InputError, match="indices from 0 to 359, got 0 to 360"):
        digits.subset([0, 360])
    with pytest.raises(InputError, match="1 to 360 examples, got 361"):
        digits.stratified(361)


def test_invariants() -> None:
    digits = data.load("digits", split="test")
    with pytest.raises(InputError, match="x as uint8"):
        replace(digits, x=digits.x.int())
    with pytest.raises(InputError, match=r"float pixels in \[0, 1\], got \[0, 255\]"):
        replace(digits, x=digits.x.float())
    with pytest.raises(InputError, match=r"y as int64 \[360\]"):
        replace(digits, y=digits.y[:5])
    with pytest.raises(InputError, match="labels 0 to 4 for 5 class names, got 0 to 9"):
        replace(digits, class_names=tuple("01234"))


def test_to_float() -> None:
    x = torch.arange(256, dtype=torch.uint8)
    floats = data.to_float(x)
    assert floats.dtype == torch.float32
    assert torch.equal((floats * 255).round().to(torch.uint8), x)
    assert x.tolist() == list(range(256))
    with pytest.raises(InputError, match="uint8 or float32 pixels"):
        data.to_float(floats.double())
    assert data.to_float(floats) is floats


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(InputError, match="did you mean mnist"):
        data.load("mnits")
    with pytest.raises(InputError, match="did you mean fashion-mnist"):
        data.load("fashionmnist")
    with pytest.raises(
        InputError, match=r"digits, mnist, fashion-mnist, fashion-sample, gtsrb, flower17.*that the path exists"
    ):
        data.load("no/such/file.npz")
    assert data.names() == ("digits", "mnist", "fashion-mnist", "fashion-sample", "gtsrb", "flower17")


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of train, test, got 'val'"):
        data.load("digits", split="val")
    with pytest.raises(InputError, match=r"options of digits \(it has none\), got size"):
        data.load("digits", size=4)
    with pytest.raises(InputError, match=r"options of mnist \(train\), got trian"):
        data.load("mnist", trian=55000)
    with pytest.raises(InputError, match="root only with a dataset's name"):
        data.load(tmp_path, root=tmp_path)
    with pytest.raises(InputError, match="size, crop, resample, holdout"):
        data.load(tmp_path, quantize=True)
