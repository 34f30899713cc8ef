"""`hf.certify`: all certificates of a batch of images, with an attack beside each of them.

The smoothed map is certified, not the plain one. It is computed from noisy copies of the image, which all certificates
of the smoothed map share.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.balls import Linf
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.saliency import map_of
from holdfast.certificates.gradient_bounds import gradient_bounds
from holdfast.certificates.noisy_maps import NoisyMaps, OnProgress, TopPixels
from holdfast.certificates.pixels import certify_pixels
from holdfast.certificates.result import Certificates, GradientCertificate
from holdfast.certificates.settings import CertifySettings
from holdfast.certificates.smoothed_attack import SmoothedAttack, SmoothedMapAttack, top_k_attack
from holdfast.certificates.soft_stability import soft_stability
from holdfast.certificates.store import Store, tensors_checksum
from holdfast.certificates.top_k_overlap import OverlapCertificate, certify_overlap
from holdfast.engine.checks import check_images, check_keys, check_labels
from holdfast.engine.modes import evaluating
from holdfast.errors import InputError, expected
from holdfast.metrics.top_k import top_k_mask
from holdfast.models.checksum import network_checksum
from holdfast.storage.json_files import words_of
from holdfast.storage.lock import owned
from holdfast.types import Model

SAMPLE, STABILITY = 0x5A, 0x57
"""Streams of the noise of the certificates and of the patches of soft stability."""


def certify(
    model: Model,
    x: Tensor,
    y: Tensor,
    settings: CertifySettings | None = None,
    *,
    keys: Tensor | None = None,
    out: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Certificates:
    """Certify the smoothed maps of the images x [B, C, H, W] for the labels y [B].

    `keys` [B] determine the noise of each example, by default from the seed and the position in the batch. `out` is a
    folder for the noisy maps; an interrupted certification resumes from it.

    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="test").x[:4])
    >>> settings = hf.CertifySettings(draws=60, attack_steps=0)
    >>> found = hf.certify(model, x, model(x).argmax(1), settings)
    >>> found
    Certificates(4 images, k=6, sigma=0.15, 60 noisy copies, not attacked)
    >>> found.overlap.kept(0.1).shape
    torch.Size([4])
    """
    settings = settings or CertifySettings()
    check_images(x)
    check_labels(y, x.shape[0])
    if not x.shape[0]:
        raise expected("at least one image", got="none")
    keys = rng.make_keys(settings.seed, torch.arange(x.shape[0], device=x.device)) if keys is None else keys
    check_keys(keys, x.shape[0])
    folder = None if out is None else Path(out)
    with nullcontext() if folder is None else owned(folder), evaluating(model):
        noisy = NoisyMaps(
            attribution=settings.attribution, sigma=settings.sigma, k=settings.top_k(x.shape[2] * x.shape[3])
        )
        store = Store.claimed(folder, _identity(model, x, y, keys, noisy, settings))
        return _Job(model, x.detach(), y, keys, settings, noisy, store, on_progress).run()


@dataclass(frozen=True)
class _Job:
    """One certification: its inputs, the noisy maps, and where they are stored."""

    model: Model
    x: Tensor
    y: Tensor
    keys: Tensor
    settings: CertifySettings
    noisy: NoisyMaps
    store: Store
    on_progress: OnProgress | None

    @property
    def sample_keys(self) -> Tensor:
        """Keys of the noise of the certificates."""
        return rng.combine(self.keys, SAMPLE)

    def run(self) -> Certificates:
        settings, k, n = self.settings, self.noisy.k, self.settings.draws
        sample = self.noisy.draw(
            self.model, self.x, self.y, keys=self.sample_keys, draws=n, store=self.store, on_progress=self.on_progress
        )
        counts, first = sample.counts(0, n), sample.counts(0, settings.first)
        overlap = certify_overlap(counts, n, k, sigma=settings.sigma, alpha=settings.alpha, bound=settings.bound)
        smoothed = (counts.double() / n).reshape(-1, *self.x.shape[2:])
        attack = self._attack(sample, overlap) if settings.attack_steps else None
        gradient, why = self._gradient(k)
        return Certificates(
            settings=settings,
            k=k,
            smoothed=smoothed,
            overlap=overlap,
            pixels=certify_pixels(
                first,
                settings.first,
                counts - first,
                n - settings.first,
                sigma=settings.sigma,
                alpha=settings.alpha,
                tau=settings.tau,
            ),
            stability=soft_stability(
                self.model,
                self.x,
                smoothed.to(self.x),
                keys=rng.combine(self.keys, STABILITY),
                error=settings.error,
                doubt=settings.doubt,
            ),
            gradient=gradient,
            attack=attack,
            notes=(*_without_ranking(sample), *why, *(attack.notes if attack else ())),
        )

    def _attack(self, sample: TopPixels, overlap: OverlapCertificate) -> SmoothedAttack:
        settings = self.settings
        attack = SmoothedMapAttack(noisy=self.noisy, steps=settings.attack_steps, search_draws=settings.attack_draws)
        return attack.run(
            self.model,
            self.x,
            self.y,
            keys=self.sample_keys,
            sample=sample,
            inside=overlap.inside,
            radii=settings.attack_radii,
            store=self.store,
            on_progress=self.on_progress,
        )

    def _gradient(self, k: int) -> tuple[GradientCertificate | None, tuple[str, ...]]:
        """Interval bounds of the plain gradient, with an attack in the same box; None and a note if not possible."""
        eps = self.settings.eps
        try:
            bounds = gradient_bounds(self.model, self.x, self.y, eps)
        except InputError as error:
            return None, (f"no interval bounds of the plain gradient: {error}",)
        clean, attacked = map_of(self.model, self.x, self.y, Gradient()), None
        if self.settings.attack_steps:
            pgd = top_k_attack(Gradient(), Linf(eps), k, steps=self.settings.attack_steps)
            moved = map_of(self.model, pgd(self.model, self.x, self.y, keys=self.keys), self.y, Gradient())
            attacked = ((top_k_mask(clean, k) & top_k_mask(moved, k)).sum(1).double() / k).cpu()
        return GradientCertificate(bounds=bounds, kept=bounds.kept(clean, k), attacked=attacked), ()


def _identity(
    model: Model, x: Tensor, y: Tensor, keys: Tensor, noisy: NoisyMaps, settings: CertifySettings
) -> dict[str, Any]:
    """What the stored noisy maps and attacked images depend on; more draws or radii continue the same sample."""
    parts: dict[str, Any] = {
        "network": network_checksum(model),
        "images": tensors_checksum(x, y, keys),
        "map": words_of(noisy),
    }
    attack = {"attack steps": settings.attack_steps, "attack draws": settings.attack_draws}
    return parts | (attack if settings.attack_steps else {})


def _without_ranking(sample: TopPixels) -> tuple[str, ...]:
    flat = int(sample.without_ranking.sum())
    if not flat:
        return ()
    total = sample.copies * len(sample.bits)
    return (f"{flat:,} of {total:,} noisy copies have a constant map, which has no top pixels",)
