"""Is the network robust, or is the attack blind? Four checks for gradient masking.

A model can look robust because its gradients are zero, because the softplus surrogate has little to do with the
network, because the search was stopped early, or because the attack does no better than noise. Each check that fails
becomes a warning.
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
"""Cosine of the clean maps of the network and of its twin below which the twin is a poor guide."""
MAX_DOUBLING_GAIN = 0.02
"""Fall of the median Kendall's tau from twice the steps above which the search was not finished."""
MIN_GAIN_OVER_NOISE = 0.02
"""Fall of the median Kendall's tau below the random control's that an attack worth its name reaches."""


@dataclass(frozen=True)
class Diagnosis:
    """The four figures and the warnings they give rise to."""

    zero_gradients: float
    """Share of steps with a gradient of exactly zero."""
    surrogate_agreement: float
    """Median cosine of the clean maps of network and twin."""
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
                f"the surrogate's maps agree with the network's only to a cosine of {self.surrogate_agreement:.2f}",
            ),
            (
                self.doubling_gain > MAX_DOUBLING_GAIN,
                f"twice the steps lower the median Kendall by {self.doubling_gain:.3f} more: the search was cut short",
            ),
            (
                self.gain_over_noise < MIN_GAIN_OVER_NOISE,
                f"the attack lowers the median Kendall by only {self.gain_over_noise:.3f} more than random signs do",
            ),
        )
        if math.isnan(self.gain_over_noise):
            return ("no image could be attacked, so nothing is known about the attack",)
        return tuple(text for trips, text in checks if trips)


def diagnose(attack: PGDExplanationAttack, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Diagnosis:
    """Run the four checks; costs about four times the attack, so give it some dozen images, not all."""
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
    """The same budget, steps and choice of the best iterate, with the direction replaced by keyed random signs."""
    return replace(attack, pgd=replace(attack.pgd, loss=NoDirection()))


def _median_kendall(result: ExplanationResult) -> float:
    return float(result.scores.kendall.nanmedian())


def _surrogate_agreement(attack: PGDExplanationAttack, model: Model, x: Tensor, y: Tensor) -> float:
    loss = attack.pgd.loss
    if not isinstance(loss, MapLoss) or loss.beta is None:
        return math.nan  # no twin, or not one that can be told from outside
    with evaluating(model), torch.no_grad():
        own = map_of(model, x, y, attack.attribution)
        twin = map_of(model, x, y, attack.attribution, beta=loss.beta)
    return float(metrics.cosine_similarity(own, twin).nanmedian())
