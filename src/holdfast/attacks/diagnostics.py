"""Four checks for gradient masking: is the network robust, or does the attack fail?

A model can appear robust because its gradients are zero, because the softplus surrogate differs from the network,
because the search stopped too early, or because the attack is no better than noise. Each failed check adds a warning.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast import metrics
from holdfast.attacks.base import ExplanationResult, Outcome
from holdfast.attacks.explanation import PGDExplanationAttack
from holdfast.attribution.saliency import map_of
from holdfast.engine.modes import evaluating
from holdfast.losses.map_distance import MapLoss, NoDirection
from holdfast.runs.summary import MAX_RANDOM_STEPS
from holdfast.types import Model

MIN_SURROGATE_AGREEMENT = 0.5
"""Smallest cosine between the clean maps of network and surrogate for which the surrogate is a useful guide."""
MAX_DOUBLING_GAIN = 0.02
"""Largest drop of the median Kendall's tau with twice the steps for which the search counts as converged."""
MIN_GAIN_OVER_NOISE = 0.02
"""Smallest drop of the median Kendall's tau below the random control for which an attack counts as effective."""


@dataclass(frozen=True)
class Diagnosis:
    """The four measurements and the warnings that follow from them."""

    zero_gradients: float
    """Share of steps with a gradient of exactly zero."""
    surrogate_agreement: float
    """Median cosine between the clean maps of network and surrogate."""
    doubling_gain: float
    """Median Kendall's tau minus the one with twice the steps."""
    gain_over_noise: float
    """Median Kendall's tau of the random control minus that of the attack."""

    @property
    def warnings(self) -> tuple[str, ...]:
        checks = (
            (
                self.zero_gradients > MAX_RANDOM_STEPS,
                f"{self.zero_gradients:.0%} of the steps had no gradient anywhere and were taken at random",
            ),
            (
                self.surrogate_agreement < MIN_SURROGATE_AGREEMENT,
                f"the median cosine between maps of surrogate and network is only {self.surrogate_agreement:.2f}",
            ),
            (
                self.doubling_gain > MAX_DOUBLING_GAIN,
                f"twice the steps lower the median Kendall's tau by another {self.doubling_gain:.3f}: too few steps",
            ),
            (self.gain_over_noise < MIN_GAIN_OVER_NOISE, self._against_noise()),
        )
        if math.isnan(self.gain_over_noise):
            return ("no image could be attacked, so nothing is known about the attack",)
        return tuple(text for trips, text in checks if trips)

    def _against_noise(self) -> str:
        gain = round(self.gain_over_noise, 3)
        if gain < 0:
            return (
                f"the attack is weaker than noise: its median Kendall's tau is {-gain:.3f} above that of random signs"
            )
        if gain == 0:
            return "the attack is no stronger than noise: random signs lower the median Kendall's tau as much"
        return f"the attack lowers the median Kendall's tau by only {gain:.3f} more than random signs"


def diagnose(attack: PGDExplanationAttack, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Diagnosis:
    """Run the four checks. They cost about four times the attack, so pass a few dozen images, not all."""
    result = attack.run(model, x, y, keys=keys)
    pgd = attack.pgd
    doubled = replace(attack, pgd=replace(pgd, steps=2 * pgd.steps)).run(model, x, y, keys=keys)
    noise = random_control(attack).run(model, x, y, keys=keys)
    skipped = (result.outcome == Outcome.MISCLASSIFIED) | (result.outcome == Outcome.NAN_MAP)
    tried = int((~skipped).sum()) * pgd.steps * pgd.restarts
    return Diagnosis(
        zero_gradients=float(result.random_steps.sum()) / max(1, tried),
        surrogate_agreement=_surrogate_agreement(attack, model, x, y),
        doubling_gain=_median_kendall(result) - _median_kendall(doubled),
        gain_over_noise=_median_kendall(noise) - _median_kendall(result),
    )


def random_control(attack: PGDExplanationAttack) -> PGDExplanationAttack:
    """The same attack (budget, steps, choice of the best iterate) with keyed random signs as step directions."""
    return replace(attack, pgd=replace(attack.pgd, loss=NoDirection(), stuck="random"))


def _median_kendall(result: ExplanationResult) -> float:
    return float(result.scores.kendall.nanmedian())


def _surrogate_agreement(attack: PGDExplanationAttack, model: Model, x: Tensor, y: Tensor) -> float:
    loss = attack.pgd.loss
    if not isinstance(loss, MapLoss) or loss.beta is None:
        return math.nan  # the loss has no surrogate, or not a known one
    with evaluating(model), torch.no_grad():
        own = map_of(model, x, y, attack.attribution)
        of_surrogate = map_of(model, x, y, attack.attribution, beta=loss.beta)
    return float(metrics.cosine_similarity(own, of_surrogate).nanmedian())
