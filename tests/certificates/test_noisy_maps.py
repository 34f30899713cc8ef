"""The sample of noisy maps: keyed, independent of the batch, stored in blocks, and continued after an interruption."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.trained import digits, trained

import holdfast as hf
from holdfast.attribution import Gradient
from holdfast.certificates.noisy_maps import BLOCK, NoisyMaps, noisy_copies
from holdfast.certificates.store import Store
from holdfast.errors import DataError, InputError

NOISY = NoisyMaps(attribution=Gradient(), sigma=0.2, k=6)


@pytest.fixture(scope="module")
def case() -> tuple:
    x, y = digits("test")
    return trained("digits-cnn", 8), x[:4], y[:4], hf.make_keys(0, torch.arange(4))


def test_counts_equal_one_copy_after_the_other(case) -> None:
    net, x, y, keys = case
    found = NOISY.draw(net, x, y, keys=keys, draws=7)
    counts = torch.zeros(4, 64, dtype=torch.int64)
    for j in range(7):
        copies = noisy_copies(x, keys, torch.tensor([j]), 0.2)[:, 0].requires_grad_()
        (gradient,) = torch.autograd.grad(net(copies).gather(1, y[:, None]).sum(), copies)
        top = gradient.abs().sum(1).flatten(1).argsort(dim=1, descending=True)[:, :6]
        counts += torch.zeros_like(counts).scatter_(1, top, 1)
    assert found.counts(0, 7).equal(counts)
    assert (found.counts(0, 3) + found.counts(3, 7)).equal(counts)
    assert found.counts(0, 7).sum(1).tolist() == [42] * 4


def test_noise_is_standard_normal_and_unclipped() -> None:
    x = torch.full((2, 1, 10, 10), 0.5)
    copies = noisy_copies(x, torch.tensor([3, 4]), torch.arange(200), 0.5)
    assert copies.min() < -0.5
    assert copies.max() > 1.5
    noise = (copies - 0.5) / 0.5
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.std()) == pytest.approx(1, abs=0.02)
    assert abs(float((noise[:, :100] * noise[:, 100:]).mean())) < 0.02  # copies are independent
    assert abs(float((noise[0] * noise[1]).mean())) < 0.02  # so are examples


def test_the_batch_changes_nothing(case) -> None:
    net, x, y, keys = case
    whole = NOISY.draw(net, x, y, keys=keys, draws=12).bits
    parts = [NOISY.draw(net, x[i : i + 1], y[i : i + 1], keys=keys[i : i + 1], draws=12).bits for i in range(4)]
    assert np.array_equal(whole, np.concatenate(parts))


class Counted(torch.nn.Module):
    """Counts the images that pass, and stops after some of them as Ctrl-C does."""

    def __init__(self, net: torch.nn.Module, limit: int = 10**9) -> None:
        super().__init__()
        self.net, self.limit, self.seen = net, limit, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        if self.seen > self.limit:
            raise KeyboardInterrupt
        return self.net(x)


def test_an_interrupted_sample_goes_on(case, tmp_path: Path) -> None:
    net, x, y, keys = case
    store, draws = Store(tmp_path), 2 * BLOCK + 10
    whole = NOISY.draw(net, x, y, keys=keys, draws=draws).bits
    stopped = Counted(net, limit=BLOCK * 4 + 10)
    with pytest.raises(KeyboardInterrupt):
        NOISY.draw(stopped, x, y, keys=keys, draws=draws, store=store)
    assert len(list(tmp_path.glob("noisy-maps-*.npz"))) == 1
    resumed = Counted(net)
    assert np.array_equal(NOISY.draw(resumed, x, y, keys=keys, draws=draws, store=store).bits, whole)
    assert resumed.seen == 4 * (draws - BLOCK)


def test_more_copies_are_added_to_a_finished_sample(case, tmp_path: Path) -> None:
    net, x, y, keys = case
    store = Store(tmp_path)
    few = NOISY.draw(net, x, y, keys=keys, draws=BLOCK + 5, store=store)
    counted = Counted(net)
    more = NOISY.draw(counted, x, y, keys=keys, draws=BLOCK + 20, store=store)
    assert counted.seen == 4 * 20  # the last block was short and is computed again
    assert np.array_equal(more.bits[:, : few.copies], few.bits)
    assert NOISY.draw(counted, x, y, keys=keys, draws=5, store=store).copies == 5


def test_copies_without_a_ranking_have_no_top_pixels() -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:  # the same gradient at every pixel
        return torch.stack([x.flatten(1).sum(1), -x.flatten(1).sum(1)], 1)

    x, y = torch.rand(2, 1, 2, 2), torch.tensor([0, 1])
    found = NoisyMaps(attribution=Gradient(), sigma=0.1, k=2).draw(flat, x, y, keys=torch.arange(2), draws=9)
    assert found.without_ranking.tolist() == [9, 9]
    assert found.counts(0, 9).sum() == 0


def test_a_folder_with_another_sample_is_refused(tmp_path: Path) -> None:
    Store.claimed(tmp_path, {"network": "a", "sigma": 0.1})
    Store.claimed(tmp_path, {"network": "a", "sigma": 0.1})
    with pytest.raises(DataError, match="another sigma"):
        Store.claimed(tmp_path, {"network": "a", "sigma": 0.2})


def test_a_damaged_block_is_an_error(case, tmp_path: Path) -> None:
    net, x, y, keys = case
    store = Store(tmp_path)
    NOISY.draw(net, x, y, keys=keys, draws=5, store=store)
    path = tmp_path / "noisy-maps-00000.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError):
        NOISY.draw(net, x, y, keys=keys, draws=5, store=store)


def test_bad_sigma() -> None:
    with pytest.raises(InputError, match="sigma > 0"):
        NoisyMaps(attribution=Gradient(), sigma=0.0, k=1)
