"""`hf.certify` on trained networks: no attack contradicts a certificate, and a certification can be interrupted."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.trained import digits, trained
from torch import nn

import holdfast as hf
from holdfast.errors import DataError, InputError

QUICK = hf.CertifySettings(draws=300, attack_steps=5, attack_draws=8, radii=(0.25, 0.5, 1.0))


@pytest.fixture(scope="module")
def batch() -> tuple:
    x, y = digits("test")
    return x[:16], y[:16]


@pytest.fixture(scope="module")
def found(batch) -> hf.Certificates:
    return hf.certify(trained("digits-cnn", 8), *batch, QUICK)


def test_no_attack_contradicts_a_certificate(found: hf.Certificates) -> None:
    assert found.contradictions == 0
    certified = torch.stack([found.overlap.kept(radius) for radius in found.attack.radii], 1)
    assert bool((certified <= found.attacked + 1e-9).all())
    assert bool((certified <= found.attacked_at_most + 1e-9).all())
    assert bool((found.pixels.certified <= found.attacked_pixels + 1e-9).all())
    assert float(certified[:, 1].mean()) > 0.3  # a certificate of nothing would be no test
    assert float(found.attacked[:, -1].mean()) < 0.97  # nor would an attack that does nothing


def test_a_wrong_certificate_would_be_contradicted(found: hf.Certificates) -> None:
    """The same attack against a certificate that promises everything within every radius."""
    promise = dataclasses.replace(found.overlap, radii=torch.full_like(found.overlap.radii, torch.inf))
    lost = dataclasses.replace(
        found.attack, counts=found.attack.counts.flip(2)
    )  # a map that has nothing in common with the clean one
    assert dataclasses.replace(found, overlap=promise, attack=lost).contradictions > 0
    assert dataclasses.replace(found, attack=lost).contradictions > 0  # certified pixels flipped
    assert dataclasses.replace(found, attack=None).contradictions == 0


def test_attacked_bounds_surround_the_estimate(found: hf.Certificates) -> None:
    assert bool((found.attacked <= found.attacked_at_most + 1e-9).all())


def test_shapes_and_short_repr(found: hf.Certificates) -> None:
    assert repr(found) == "Certificates(16 images, k=6, sigma=0.15, 300 noisy copies, attacked)"
    assert found.smoothed.shape == (16, 8, 8)
    torch.testing.assert_close(found.smoothed.sum((1, 2)), torch.full((16,), 6.0, dtype=torch.float64))
    assert found.overlap.radii.shape == (16, 6)
    assert found.pixels.labels.shape == (16, 64)
    assert found.pixels.radius == pytest.approx(0.15 * norm.ppf(0.75))
    assert found.attacked.shape == (16, 5)
    assert found.stability.rate.shape == (16,)
    assert found.gradient is None
    assert "got DigitsCNN" in found.notes[0]


def test_the_text_says_what_is_certified_and_where(found: hf.Certificates) -> None:
    text = str(found)
    assert text.startswith("The smoothed map is certified, not the plain one, for 16 images.")
    assert "Within radius 0.0375 (Euclidean, pixels in [0, 1]) the median image" in text
    assert "Within radius 0.101 the median image" in text
    assert "under attack" in text
    assert "probability at most 0.001" in text


def test_the_batch_changes_nothing(found: hf.Certificates, batch) -> None:
    x, y = batch
    keys = hf.make_keys(0, torch.arange(16))
    part = hf.certify(trained("digits-cnn", 8), x[5:8], y[5:8], QUICK, keys=keys[5:8])
    assert part.smoothed.equal(found.smoothed[5:8])
    assert part.stability.rate.equal(found.stability.rate[5:8])
    torch.testing.assert_close(part.attack.x_adv, found.attack.x_adv[:, 5:8], atol=1e-4, rtol=0)


def test_more_noise_gives_larger_radii(batch) -> None:
    x, y = batch
    narrow, wide = (
        hf.certify(trained("digits-cnn", 8), x, y, hf.CertifySettings(draws=200, attack_steps=0, sigma=s))
        for s in (0.02, 0.3)
    )
    assert wide.overlap.radii[:, 0].median() > 3 * narrow.overlap.radii[:, 0].median()
    assert wide.attacked is wide.attacked_at_most is wide.attacked_pixels is None


def test_hoeffding_certifies_less(batch) -> None:
    x, y = batch
    exact, paper = (
        hf.certify(trained("digits-cnn", 8), x, y, hf.CertifySettings(draws=200, attack_steps=0, bound=bound))
        for bound in ("clopper-pearson", "hoeffding")
    )
    assert bool((exact.overlap.radii[:, 0] > paper.overlap.radii[:, 0]).all())


@pytest.fixture(scope="module")
def sequential() -> nn.Module:
    """A sequential network on digits, trained for a few seconds."""
    torch.manual_seed(0)
    x, y = digits("train")
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for rows in torch.randint(len(x), (150, 64)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    return net.eval()


@pytest.mark.parametrize("eps", [1 / 255, 0.03])
def test_interval_bounds_are_not_contradicted_either(sequential: nn.Module, batch, eps: float) -> None:
    found = hf.certify(sequential, *batch, dataclasses.replace(QUICK, draws=60, eps=eps))
    assert found.gradient is not None
    assert found.notes == ()
    assert bool((found.gradient.kept <= found.gradient.attacked + 1e-9).all())
    assert found.contradictions == 0
    if eps < 0.01:
        assert found.gradient.kept.mean() > 0.5
        assert "Plain gradient, for changes of at most 0.00392 per pixel" in str(found)


class Interrupting(nn.Module):
    """Stops after a number of images, as Ctrl-C does."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.limit, self.seen = net, 10**9, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        if self.seen > self.limit:
            raise KeyboardInterrupt
        return self.net(x)


def test_an_interrupted_certification_goes_on(batch, tmp_path: Path) -> None:
    x, y = batch[0][:4], batch[1][:4]
    net = Interrupting(trained("digits-cnn", 8))
    settings = dataclasses.replace(QUICK, draws=120, radii=(1.0,))
    whole = hf.certify(net, x, y, settings)
    total, net.seen = net.seen, 0
    net.limit = total // 2
    with pytest.raises(KeyboardInterrupt):
        hf.certify(net, x, y, settings, out=tmp_path / "c")
    net.seen, net.limit = 0, 10**9
    resumed = hf.certify(net, x, y, settings, out=tmp_path / "c")
    assert net.seen < 0.8 * total
    assert resumed.attack.x_adv.equal(whole.attack.x_adv)
    assert resumed.summary() == whole.summary()
    other = hf.certify(net, x, y, dataclasses.replace(settings, draws=150, radii=(0.5, 1.0)), out=tmp_path / "c")
    assert np.isclose(other.attack.radii[-1], whole.attack.radii[-1])
    with pytest.raises(DataError, match="another images"):
        hf.certify(net, x.flip(0), y, settings, out=tmp_path / "c")
    with pytest.raises(DataError, match="another map"):
        hf.certify(net, x, y, dataclasses.replace(settings, sigma=0.3), out=tmp_path / "c")


def test_any_map_can_be_certified(batch) -> None:
    x, y = batch[0][:3], batch[1][:3]
    settings = hf.CertifySettings(attribution=hf.IntegratedGradients(steps=3), draws=60, attack_steps=0, k=9)
    found = hf.certify(trained("digits-cnn", 8), x, y, settings)
    assert found.k == 9
    assert "IntegratedGradients" in str(found)


def test_the_network_is_left_as_it_was(batch) -> None:
    net = hf.models.build("digits-cnn", seed=0)
    assert net.training
    hf.certify(net, batch[0][:2], batch[1][:2], hf.CertifySettings(draws=20, attack_steps=1, attack_draws=2))
    assert net.training
    assert all(p.requires_grad and p.grad is None for p in net.parameters())


def test_bad_input(batch) -> None:
    net = trained("digits-cnn", 8)
    with pytest.raises(InputError, match="1 <= first < draws"):
        hf.CertifySettings(draws=10)
    with pytest.raises(InputError, match="bound to be one of"):
        hf.CertifySettings(bound="wald")
    with pytest.raises(InputError, match="radii > 0"):
        hf.CertifySettings(radii=(0.0,))
    with pytest.raises(InputError, match="at least one image"):
        hf.certify(net, batch[0][:0], batch[1][:0])
    with pytest.raises(InputError, match="pixels in"):
        hf.certify(net, batch[0] * 2, batch[1])
