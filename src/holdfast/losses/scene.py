"""What the losses of one sum look at together, computed once.

A loss says beforehand which maps it wants; the scene computes all maps along the same path in one go, whichever loss
asks first, and takes the logits at the perturbed image from the end of a path that is walked anyway. A scene lives
for one evaluation of one sum, so nothing in it can go stale.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor

from holdfast.attribution.engine import check_logits
from holdfast.attribution.integrated import IntegratedGradients, Trace
from holdfast.attribution.scores import most_confusing
from holdfast.meter import spend
from holdfast.models.lean import lean_on
from holdfast.models.surrogate import smooth
from holdfast.types import Known, Model, Pair, Score


class Path(Enum):
    """Which two images a path of integrated gradients connects."""

    TO_CLEAN = "baseline to x"
    TO_PERTURBED = "baseline to x'"
    BETWEEN = "x to x'"


class Label(Enum):
    """Which class a map explains."""

    TRUE = "y"
    NEGATIVE = "the most confusing class at x'"


@dataclass(frozen=True, kw_only=True)
class Want:
    """One map a loss asks for: `ig`'s points along `path`, of `score` of `label`, on the twin when `beta` is given."""

    path: Path
    ig: IntegratedGradients
    score: Score
    label: Label = Label.TRUE
    beta: float | None = None

    def same_walk(self, other: "Want") -> bool:
        """Whether one forward pass serves both."""
        return (self.path, self.ig, self.beta) == (other.path, other.ig, other.beta)


@dataclass
class Scene:
    """One evaluation of a loss: the model, the pair, and everything computed so far."""

    model: Model
    pair: Pair
    wants: tuple[Want, ...] = ()
    parts: dict[str, Tensor] = field(default_factory=dict)
    """Named parts of the loss, detached [B], for the log."""
    shown: Known[Tensor] = field(default_factory=Known)
    """Saliency maps [B, H, W] of the perturbed images that a loss has computed, for whoever wants to score them."""
    _maps: dict[Want, Tensor] = field(default_factory=dict)
    _logits: dict[tuple[str, float | None], Tensor] = field(default_factory=dict)

    def note(self, name: str, value: Tensor) -> Tensor:
        """Write a part down for the log and hand it back."""
        self.parts[name] = value.detach()
        return value

    def map(self, want: Want) -> Tensor:
        """The wanted map, like x; computed together with all others along the same path."""
        if want not in self._maps:
            self._walk(want)
        return self._maps[want]

    def logits(self, at: str, beta: float | None = None) -> Tensor:
        """Logits [B, K] at the 'clean' or 'perturbed' image, from the end of a path where one is walked anyway."""
        if (at, beta) not in self._logits:
            for want in self.wants:
                if want.beta == beta and want.ig.reaches_end() and at == _end(want.path):
                    self.map(want)
                    break
        if (at, beta) not in self._logits:
            self._logits[at, beta] = self._forward(self.pair.x if at == "clean" else self.pair.x_adv, beta)
        return self._logits[at, beta]

    @property
    def seen_logits(self) -> dict[tuple[str, float | None], Tensor]:
        """Logits computed so far, by ('clean' or 'perturbed', sharpness of the twin or None)."""
        return self._logits

    def _walk(self, want: Want) -> None:
        together = list(dict.fromkeys([want, *(w for w in self.wants if w.same_walk(want))]))
        targets = [(w.score, self._labels(w)) for w in together]
        start = self.pair.x if want.path is Path.BETWEEN else None
        end = self.pair.x if want.path is Path.TO_CLEAN else self.pair.x_adv
        with _twin(want.beta):
            trace: Trace = want.ig.trace(self.model, start, end, targets, create_graph=torch.is_grad_enabled())
        self._maps |= dict(zip(together, trace.maps, strict=True))
        if trace.end_logits is not None:
            self._logits.setdefault((_end(want.path), want.beta), trace.end_logits)

    def _labels(self, want: Want) -> Tensor:
        if want.label is Label.TRUE:
            return self.pair.y
        with torch.no_grad():  # a choice of class, not a quantity to differentiate
            return most_confusing(self._forward(self.pair.x_adv, want.beta), self.pair.y)

    def _forward(self, x: Tensor, beta: float | None) -> Tensor:
        spend(x.shape[0], 2 if torch.is_grad_enabled() else 1)
        with _twin(beta), lean_on(x):
            return check_logits(self.model(x), x)


def _end(path: Path) -> str:
    return "clean" if path is Path.TO_CLEAN else "perturbed"


def _twin(beta: float | None) -> smooth | nullcontext[None]:
    return nullcontext() if beta is None else smooth(beta)
