"""An attack on the smoothed map: the counterpart of its certificates.

A certificate says that no perturbation within a radius does more than some damage. The attack looks for one that does
as much damage as possible; the truth lies between the two. Two searches are made, and the better image is kept:

    noise gradient   The smoothed map is an expectation over noise e. For the number h of top pixels that a copy keeps,
                     grad_x E h(x + sigma e) = E[h(x + sigma e) e] / sigma (Stein's lemma). The sample of the
                     certificate gives an estimate without further passes. One step of the full radius goes against it.
    PGD              ascends a soft top-k loss of `SoftSmoothedMap`, with noise that stays fixed during the search.

The image is then judged by the smoothed map itself, with fresh noise.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.balls import L2, Ball
from holdfast.attacks.pgd import PGD
from holdfast.certificates.noisy_maps import ENTRIES_AT_ONCE, NoisyMaps, OnProgress, TopPixels, noisy_copies
from holdfast.certificates.soft_map import SoftSmoothedMap
from holdfast.certificates.store import Store
from holdfast.engine.ops import per_example
from holdfast.engine.parallel import slices
from holdfast.errors import InputError
from holdfast.losses.map_distance import SoftTopK
from holdfast.metrics.top_k import top_k_mask
from holdfast.types import Attribution, Model

CHOICE, JUDGE = 1, 2
"""Streams of the noise with which the better image is chosen, and with which it is judged."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothedAttack:
    """The attacked images of each radius, [R, B, C, H, W], and their top pixels over `draws` fresh noisy copies.

    `counts` int64 [R, B, P] has the number of copies with the pixel in their top k. The first radius is 0, the image
    itself: what differs there comes from the noise alone. `notes` say what could not be run.
    """

    radii: tuple[float, ...]
    x_adv: Tensor
    counts: Tensor
    draws: int
    notes: tuple[str, ...] = ()

    def kept(self, inside: Tensor) -> Tensor:
        """Share of the pixels `inside` [B, P] that are in the top k of the smoothed map, float64 [B, R]."""
        k = int(inside[0].sum())
        shown = top_k_mask(self.counts.flatten(0, 1), k).reshape(self.counts.shape)
        return (shown & inside).sum(2).double().T / k


@dataclass(frozen=True, kw_only=True)
class SmoothedMapAttack:
    """Settings of the attack: the map, the number of PGD steps, and the noisy copies in each of them."""

    noisy: NoisyMaps
    steps: int = 20
    search_draws: int = 16

    def run(
        self,
        model: Model,
        x: Tensor,
        y: Tensor,
        *,
        keys: Tensor,
        sample: TopPixels,
        inside: Tensor,
        radii: tuple[float, ...],
        store: Store | None = None,
        on_progress: OnProgress | None = None,
    ) -> SmoothedAttack:
        """Attack the pixels `inside` [B, P] at every radius; `sample` has the noisy copies of `keys` at x."""
        store, notes, images, counts = store or Store(), set[str](), [], []
        against = noise_gradient(x, keys, sample, inside, self.noisy.sigma)
        for radius in (0.0, *radii):
            name = f"attacked-{radius:.6g}"
            kept = store.read(name)
            if kept is None:
                found, more = self._best(model, x, y, keys, L2(radius), against, inside)
                notes |= set(more)
                store.write(name, found.cpu().numpy())
            else:
                found = torch.from_numpy(kept).to(x)
            judged = self.noisy.draw(
                model,
                found,
                y,
                keys=rng.combine(keys, JUDGE),
                draws=sample.copies,
                store=store,
                name=f"judged-{radius:.6g}",
                on_progress=on_progress,
            )
            images.append(found.cpu())
            counts.append(judged.counts(0, judged.copies))
        return SmoothedAttack(
            radii=(0.0, *radii),
            x_adv=torch.stack(images),
            counts=torch.stack(counts),
            draws=sample.copies,
            notes=tuple(sorted(notes)),
        )

    def _best(
        self, model: Model, x: Tensor, y: Tensor, keys: Tensor, ball: L2, against: Tensor, inside: Tensor
    ) -> tuple[Tensor, tuple[str, ...]]:
        """For each example the image, of those that the two searches find, that keeps fewer top pixels."""
        if ball.eps == 0:
            return x, ()
        found = [_step_against(x, against, ball)]
        soft = SoftSmoothedMap(
            attribution=self.noisy.attribution, sigma=self.noisy.sigma, k=self.noisy.k, draws=self.search_draws
        )
        try:
            found.append(top_k_attack(soft, ball, self.noisy.k, steps=self.steps)(model, x, y, keys=keys))
        except InputError as error:  # a network or a map that cannot be differentiated twice
            return found[0], (f"the attack took the step of the noise gradient only, since PGD failed: {error}",)
        hits = torch.stack([self._hits(model, image, y, keys, inside) for image in found])
        first = per_example(hits.argmin(0) == 0, x).to(x.device)
        return torch.where(first, found[0], found[1]), ()

    def _hits(self, model: Model, x: Tensor, y: Tensor, keys: Tensor, inside: Tensor) -> Tensor:
        draws = 4 * self.search_draws
        top = self.noisy.draw(model, x, y, keys=rng.combine(keys, CHOICE), draws=draws)
        return (top.counts(0, draws) * inside).sum(1)


def top_k_attack(attribution: Attribution, ball: Ball, k: int, *, steps: int, beta: float | None = 30.0) -> PGD:
    """PGD that ascends the soft share of top k pixels lost by the map of `attribution`; the prediction may change.

    Certificates hold for every perturbation in the ball, whatever it does to the prediction. `beta` is the sharpness of
    the softplus surrogate that is differentiated in place of a ReLU network.
    """
    loss = SoftTopK(attribution=attribution, k=k, beta=beta)
    return PGD(loss, ball=ball, steps=steps, step_size=2.5 * ball.eps / max(1, steps))


def _step_against(x: Tensor, gradient: Tensor, ball: L2) -> Tensor:
    """A step of the full radius against the gradient, along the directions that do not leave the pixel range."""
    leaves = ((x <= 0) & (gradient > 0)) | ((x >= 1) & (gradient < 0))
    return ball.project(x - ball.eps * ball.step(gradient.masked_fill(leaves, 0)), x)


def noise_gradient(x: Tensor, keys: Tensor, sample: TopPixels, inside: Tensor, sigma: float) -> Tensor:
    """Estimate of grad_x E h(x + sigma e), shaped like x: mean of (h - mean h) e / sigma over the copies of the sample.

    h is the number of pixels `inside` [B, P] that are in the top k of the copy. Subtracting its mean changes nothing in
    expectation and reduces the variance.
    """
    hits = sample.hits(inside).to(x)
    weights = (hits - hits.mean(1, keepdim=True)) / (sigma * sample.copies)
    total = torch.zeros_like(x)
    for part in slices(sample.copies, max(1, ENTRIES_AT_ONCE // max(1, x.numel()))):
        numbers = torch.arange(part.start, part.stop, device=x.device)
        noise = (noisy_copies(x, keys, numbers, sigma) - x[:, None]) / sigma
        total += torch.einsum("bn,bnchw->bchw", weights[:, part], noise)
    return total
