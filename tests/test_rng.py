"""Keyed noise: a pure function of the key, well spread, the same for every batch it stands in."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast import rng

LIKE = torch.empty(3, 2, 5, 5)


def splitmix64(z: int) -> int:
    """The published finaliser in plain Python integers, the oracle of the wrapping int64 version."""
    mask = (1 << 64) - 1
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@given(st.integers(-(2**63), 2**63 - 1))
def test_mix_is_splitmix64(number: int) -> None:
    mixed = int(rng.mix(torch.tensor([number])))
    assert mixed % 2**64 == splitmix64(number % 2**64)


def test_noise_depends_on_the_key_alone() -> None:
    keys = rng.make_keys(5, torch.tensor([10, 11, 12]))
    whole = rng.uniform(keys, LIKE)
    alone = rng.uniform(keys[1:2], LIKE[1:2])
    assert torch.equal(whole[1:2], alone)
    assert not torch.equal(whole[0], whole[1])


@pytest.mark.parametrize("change", [{"seed": 6}, {"stream": 1}, {"ids": torch.tensor([13, 11, 12])}])
def test_every_part_of_the_key_counts(change: dict) -> None:
    settings = {"seed": 5, "ids": torch.tensor([10, 11, 12]), "stream": 0}
    assert rng.make_keys(**settings)[0] != rng.make_keys(**(settings | change))[0]


def test_distributions() -> None:
    keys = rng.make_keys(0, torch.arange(200))
    like = torch.empty(200, 500)
    uniform = rng.uniform(keys, like, low=-2, high=2)
    assert -2 <= uniform.min() < -1.99
    assert 1.99 < uniform.max() < 2
    assert abs(uniform.mean()) < 0.02
    assert abs(uniform.std() - 4 / 12**0.5) < 0.02
    normal = rng.normal(keys, like)
    assert normal.isfinite().all()
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert abs((normal**4).mean() - 3) < 0.1
    signs = rng.signs(keys, like)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.02


def test_neighbouring_examples_and_positions_are_uncorrelated() -> None:
    noise = rng.normal(rng.make_keys(0, torch.arange(300)), torch.empty(300, 400))
    assert abs((noise[:-1] * noise[1:]).mean()) < 0.01
    assert abs((noise[:, :-1] * noise[:, 1:]).mean()) < 0.01


def test_empty_batch() -> None:
    assert rng.uniform(torch.empty(0, dtype=torch.int64), torch.empty(0, 1, 2, 2)).shape == (0, 1, 2, 2)
