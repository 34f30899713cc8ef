"""Losses of the change of attribution between x and x': RAR's norm, the paper's WACR, and IGR's cosine.

Symbols follow the paper: A = IG(x0, x) of the true probability, dA the change of attribution, P1 and P2 the pixels
where sign(A) and sign(dA) differ or agree, S a size function.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.scores import true_loss, true_probability
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.scene import Path, Scene, Want
from holdfast.ops import flatten
from holdfast.types import Score


def l1(values: Tensor) -> Tensor:
    """sum_i |v_i| of each example, [B, P] -> [B]."""
    return values.abs().sum(1)


def l2(values: Tensor) -> Tensor:
    """Euclidean norm of each example, [B, P] -> [B]; with a finite slope at zero."""
    return (values.square().sum(1) + 1e-24).sqrt()


SIZES: Mapping[str, Callable[[Tensor], Tensor]] = {"l1": l1, "l2": l2}


def per_pixel(attribution: Tensor) -> Tensor:
    """Signed sum over channels: one number a pixel, [B, C, H, W] -> [B, H W]."""
    return flatten(attribution.sum(1))


GRANULARITIES: Mapping[str, Callable[[Tensor], Tensor]] = {"pixel": per_pixel, "entry": flatten}


def pick(table: Mapping[str, Callable[[Tensor], Tensor]], name: str, what: str) -> Callable[[Tensor], Tensor]:
    """An entry of a registry, or an error that lists them."""
    if name not in table:
        raise expected(f"{what} out of {', '.join(table)}", got=repr(name))
    return table[name]


@dataclass(frozen=True, kw_only=True)
class IGNorm(Loss):
    """S(IG(x, x')) of the loss (RAR, Chen et al. 2019; the second term of Eq. 12), `steps` points from x to x'."""

    steps: int = 50
    size: str = "l1"

    def __post_init__(self) -> None:
        pick(SIZES, self.size, "a size")

    @property
    def wants(self) -> tuple[Want, ...]:
        return (Want(path=Path.BETWEEN, ig=path_ig(self.steps), score=true_loss),)

    def value(self, scene: Scene, clean: Clean) -> Tensor:
        return scene.note("ig_norm", SIZES[self.size](flatten(scene.map(self.wants[0]))))


@dataclass(frozen=True)
class Change:
    """One reading of the change of attribution dA: the maps it needs, and how they give dA."""

    paths: tuple[tuple[Path, Score], ...]
    combine: Callable[..., Tensor]


CHANGES: Mapping[str, Change] = {
    # The paper states the first two as equal; only their sums over pixels are. The authors' code has the third.
    "difference": Change(
        ((Path.TO_PERTURBED, true_probability), (Path.TO_CLEAN, true_probability)), lambda after, before: after - before
    ),
    "path": Change(((Path.BETWEEN, true_probability),), lambda along: along),
    "loss-path": Change(((Path.BETWEEN, true_loss),), lambda along: -along),
}


@dataclass(frozen=True, kw_only=True)
class WACR(Loss):
    """Weighted attribution change regularizer, S(dA) on P1 + S(A * dA) on P2 (Eq. 9).

    `change` selects dA: `difference` IG(x0, x') - IG(x0, x), `path` IG(x, x') of the true probability, `loss-path`
    minus IG(x, x') of the loss (released code). `granularity`: per `pixel` (channels summed, the paper's wording) or
    per `entry` (released code). `base_attribution=False` is the ablation S(dA) on P2 as well.
    """

    steps: int = 50
    change: str = "difference"
    granularity: str = "pixel"
    size: str = "l1"
    base_attribution: bool = True

    def __post_init__(self) -> None:
        pick(SIZES, self.size, "a size")
        pick(GRANULARITIES, self.granularity, "a granularity")
        if self.change not in CHANGES:
            raise expected(f"a change out of {', '.join(CHANGES)}", got=repr(self.change))

    @property
    def wants(self) -> tuple[Want, ...]:
        return (self._base, *self._moves)

    @property
    def _base(self) -> Want:
        return self._want(Path.TO_CLEAN, true_probability)

    @property
    def _moves(self) -> tuple[Want, ...]:
        return tuple(self._want(path, score) for path, score in CHANGES[self.change].paths)

    def _want(self, path: Path, score: Score) -> Want:
        # one setting for all paths, so that losses with the same number of points share them
        return Want(path=path, ig=path_ig(self.steps), score=score)

    def value(self, scene: Scene, clean: Clean) -> Tensor:
        coarse = GRANULARITIES[self.granularity]
        base = coarse(scene.map(self._base))
        change = coarse(CHANGES[self.change].combine(*(scene.map(want) for want in self._moves)))
        agrees = base.sign() == change.sign()  # P2; where both are zero the term is zero
        weighted = base * change if self.base_attribution else change
        first = scene.note("wacr_p1", SIZES[self.size](change * ~agrees))
        second = scene.note("wacr_p2", SIZES[self.size](weighted * agrees))
        share = scene.note("share_p2", agrees.to(base.dtype).mean(1))
        scene.note("share_p1", 1 - share)
        return first + second


@dataclass(frozen=True, kw_only=True)
class AttributionCosine(Loss):
    """1 - cos(IG(x0, x), IG(x0, x')) of the signed attributions (IGR, Wang and Kong 2022)."""

    steps: int = 50
    score: Score = true_probability

    @property
    def wants(self) -> tuple[Want, ...]:
        paths = (Path.TO_CLEAN, Path.TO_PERTURBED)
        return tuple(Want(path=path, ig=path_ig(self.steps), score=self.score) for path in paths)

    def value(self, scene: Scene, clean: Clean) -> Tensor:
        before, after = (flatten(scene.map(want)) for want in self.wants)
        return scene.note("ig_cosine", 1 - torch.cosine_similarity(before, after, dim=1, eps=1e-12))


def path_ig(steps: int) -> IntegratedGradients:
    """The paper's integrated gradients with m = `steps` points; the score is chosen for each map."""
    return IntegratedGradients(steps=steps)
