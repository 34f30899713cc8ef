"""The attack on the smoothed map: its parts by hand, what it is allowed to do, and that it beats noise."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.trained import digits, trained

import holdfast as hf
from holdfast.certificates.noisy_maps import NoisyMaps, TopPixels, noisy_copies
from holdfast.certificates.smoothed_attack import SmoothedMapAttack, noise_gradient
from holdfast.certificates.soft_map import SoftSmoothedMap
from holdfast.certificates.store import Store
from holdfast.certificates.top_k_overlap import certify_overlap

NOISY = NoisyMaps(attribution=hf.Gradient(), sigma=0.15, k=6)


@pytest.fixture(scope="module")
def case() -> tuple:
    x, y = digits("test")
    x, y, net, keys = x[:8], y[:8], trained("digits-cnn", 8), hf.make_keys(0, torch.arange(8))
    sample = NOISY.draw(net, x, y, keys=keys, draws=400)
    inside = certify_overlap(sample.counts(0, 400), 400, 6, sigma=0.15, alpha=0.001).inside
    return net, x, y, keys, sample, inside


def test_the_soft_map_approaches_the_share_of_copies(case) -> None:
    """With a small temperature: 1 above the threshold, 1/2 at the k-th largest value itself, 0 below."""
    net, x, y, *_ = case
    soft = SoftSmoothedMap(attribution=hf.Gradient(), sigma=0.15, k=6, draws=5, temperature=1e-6)
    keys = hf.make_keys(0, torch.arange(5))
    noise = 0.15 * hf.certificates.noisy_maps.rng.normal(keys, x[:5])
    share = torch.zeros(8, 64)
    for j in range(5):
        maps = hf.saliency_map(hf.Gradient()(net, x + noise[j], y)).flatten(1)
        last = maps.topk(6, dim=1).values[:, -1:]
        share += ((maps > last).float() + 0.5 * (maps == last)) / 5
    torch.testing.assert_close(soft(net, x, y).flatten(1), share, atol=1e-3, rtol=0)
    assert soft.points == 5


def test_the_soft_map_does_not_depend_on_the_batch(case) -> None:
    net, x, y, *_ = case
    soft = SoftSmoothedMap(attribution=hf.Gradient(), sigma=0.15, k=6, draws=4)
    torch.testing.assert_close(soft(net, x, y)[3:4], soft(net, x[3:4], y[3:4]))


def test_noise_gradient_by_hand() -> None:
    """One pixel, three copies: hits 1, 0, 1 and noise e give sum of (h - 2/3) e / (3 sigma)."""
    x, keys = torch.full((1, 1, 1, 1), 0.5), torch.tensor([7])
    bits = np.packbits(np.array([[[1], [0], [1]]], dtype=np.uint8), axis=2)
    e = ((noisy_copies(x, keys, torch.arange(3), 0.5) - x[:, None]) / 0.5).flatten()
    found = noise_gradient(x, keys, TopPixels(bits, 1), torch.tensor([[True]]), sigma=0.5)
    by_hand = (e[0] / 3 - 2 * e[1] / 3 + e[2] / 3) / (3 * 0.5)
    assert found.item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_noise_gradient_finds_the_gradient_of_a_smoothed_step() -> None:
    """h = 1 where e_1 > 0: E h(x + sigma e) has the gradient phi(0) / sigma in the first entry and 0 in the others."""
    x, keys, draws = torch.full((1, 1, 1, 3), 0.5), torch.tensor([3]), 20_000
    copies = noisy_copies(x, keys, torch.arange(draws), 0.25)
    bits = np.packbits((copies[0, :, 0, 0, :1] > 0.5).numpy()[None], axis=2)
    found = noise_gradient(x, keys, TopPixels(bits, 1), torch.tensor([[True]]), sigma=0.25).flatten()
    assert found.tolist() == pytest.approx([0.39894 / 0.25, 0, 0], abs=0.05)


def test_hits_by_hand() -> None:
    bits = np.packbits(np.array([[[1, 0, 1, 1], [0, 0, 1, 0]]], dtype=np.uint8), axis=2)
    assert TopPixels(bits, 4).hits(torch.tensor([[True, True, True, False]])).tolist() == [[2, 1]]


def test_the_attack_stays_in_the_ball_and_beats_noise(case, tmp_path: Path) -> None:
    net, x, y, keys, sample, inside = case
    attack = SmoothedMapAttack(noisy=NOISY, steps=5, search_draws=8)
    radii = (0.15, 0.6)
    found = attack.run(net, x, y, keys=keys, sample=sample, inside=inside, radii=radii, store=Store(tmp_path))
    assert found.radii == (0.0, *radii)
    assert found.x_adv[0].equal(x)
    for images, radius in zip(found.x_adv, found.radii, strict=True):
        assert bool(((images - x).flatten(1).norm(dim=1) <= radius + 1e-5).all())
        assert images.min() >= 0
        assert images.max() <= 1
    kept = found.kept(inside).mean(0)
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    noise = hf.L2(0.6).project(x + 0.6 * hf.L2(0.6).step(direction), x)
    random = NOISY.draw(net, noise, y, keys=keys + 99, draws=400).counts(0, 400)
    shown = certify_overlap(random, 400, 6, sigma=0.15, alpha=0.001).inside
    assert kept[2] < (shown & inside).sum(1).double().mean() / 6 - 0.05
    assert kept[0] > 0.9
    again = attack.run(net, x, y, keys=keys, sample=sample, inside=inside, radii=radii, store=Store(tmp_path))
    assert again.x_adv.equal(found.x_adv)
    assert again.counts.equal(found.counts)


def test_a_map_without_second_derivatives_is_attacked_by_the_noise_gradient(case) -> None:
    net, x, y, keys, sample, inside = case

    def detached(model, x, y, *, create_graph: bool = False) -> torch.Tensor:
        return hf.Gradient()(model, x, y).detach()

    attack = SmoothedMapAttack(noisy=NoisyMaps(attribution=detached, sigma=0.15, k=6), steps=2, search_draws=4)
    found = attack.run(net, x, y, keys=keys, sample=sample, inside=inside, radii=(0.3,))
    assert "noise gradient only" in found.notes[0]
    assert not found.x_adv[1].equal(x)
