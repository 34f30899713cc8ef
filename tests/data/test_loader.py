"""The order of batches is a function of (seed, epoch) alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast import data
from holdfast.errors import InputError
from holdfast.rng import make_keys, uniform

DIGITS = data.load("digits", split="test").stratified(53)
SIZES = st.integers(1, 60)


def ids(loader: data.Loader, epoch: int) -> list[int]:
    return torch.cat([batch[2] for batch in loader.epoch(epoch)]).tolist()


def test_batches() -> None:
    loader = data.Loader(DIGITS, 10)
    batches = list(loader)
    assert [len(y) for _, y, _ in batches] == [10] * 5 + [3]
    assert len(loader) == 6
    x, y, chosen = batches[0]
    assert (x.dtype, x.shape, y.dtype) == (torch.float32, (10, 1, 8, 8), torch.int64)
    rows = [DIGITS.ids.tolist().index(i) for i in chosen.tolist()]
    assert torch.equal(x, DIGITS.x[rows].float() / 255)
    assert torch.equal(y, DIGITS.y[rows])


@given(SIZES, st.integers(0, 2**40), st.integers(0, 1000))
def test_an_epoch_is_a_permutation_whatever_the_batch_size(size: int, seed: int, epoch: int) -> None:
    order = ids(data.Loader(DIGITS, size, seed=seed), epoch)
    assert sorted(order) == sorted(DIGITS.ids.tolist())
    assert order == ids(data.Loader(DIGITS, 7, seed=seed), epoch)


def test_seeds_and_epochs_differ() -> None:
    loader = data.Loader(DIGITS, 10)
    orders = [ids(loader, 0), ids(loader, 1), ids(data.Loader(DIGITS, 10, seed=1), 0)]
    assert len({tuple(order) for order in orders}) == 3
    assert ids(loader, 0) == orders[0]


def test_order_follows_ids_not_positions() -> None:
    turned = DIGITS.subset(range(len(DIGITS) - 1, -1, -1))
    assert ids(data.Loader(DIGITS, 10), 3) == ids(data.Loader(turned, 10), 3)


def test_without_shuffle() -> None:
    loader = data.Loader(DIGITS, 10, shuffle=False)
    assert ids(loader, 5) == DIGITS.ids.tolist()


@given(st.integers(1, 6), st.integers(6, 60), st.booleans())
def test_shards_of_a_batch_make_the_batch(world: int, size: int, drop_last: bool) -> None:
    if drop_last and size > len(DIGITS):
        return
    whole = data.Loader(DIGITS, size, drop_last=drop_last)
    shards = [data.Loader(DIGITS, size, drop_last=drop_last, rank=r, world_size=world) for r in range(world)]
    for step in range(2 * len(whole)):
        parts = [shard.batch(step) for shard in shards]
        for field, expected in enumerate(whole.batch(step)):
            assert torch.equal(torch.cat([part[field] for part in parts]), expected)
        if drop_last:
            assert len(whole.batch(step)[1]) == size


def test_random_access_is_the_sequence() -> None:
    loader = data.Loader(DIGITS, 20)
    sequence = [batch[2].tolist() for epoch in range(3) for batch in loader.epoch(epoch)]
    for step in (7, 0, 8, 3):
        assert loader.batch(step)[2].tolist() == sequence[step]


def test_noise_of_an_example_is_that_of_its_id() -> None:
    def noise(size: int) -> dict[int, float]:
        found: dict[int, float] = {}
        for x, _, example in data.Loader(DIGITS, size).epoch(2):
            values = uniform(make_keys(0, example, 2), x)[:, 0, 0, 0]
            found |= dict(zip(example.tolist(), values.tolist(), strict=True))
        return found

    assert noise(7) == noise(50)


def test_refusals() -> None:
    with pytest.raises(InputError, match="rank < world_size, got rank 2 of 2"):
        data.Loader(DIGITS, 10, rank=2, world_size=2)
    with pytest.raises(InputError, match=r"batch_size >= world_size \(4\), got 3"):
        data.Loader(DIGITS, 3, world_size=4)
    with pytest.raises(InputError, match="at least one batch, got 53 examples for batches of 54"):
        data.Loader(DIGITS, 54, drop_last=True)
    with pytest.raises(InputError, match="step >= 0"):
        data.Loader(DIGITS, 10).batch(-1)
