"""WACR, the weighted attribution change regularizer of the paper (Eqs. 7 to 9).

Symbols follow the paper: A = IG(x0, x) of the true probability, dA the change of attribution, P1 the pixels where
sign(A) and sign(dA) differ, P2 those where they agree, S a size function.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from holdfast.attribution.scores import true_loss, true_probability
from holdfast.errors import expected
from holdfast.losses.base import Clean, Loss
from holdfast.losses.context import LossContext, MapPath, MapRequest
from holdfast.losses.pixels import GRANULARITIES, SIZES, path_ig, pick
from holdfast.types import Score


@dataclass(frozen=True)
class Change:
    """One definition of the change of attribution dA: the maps it needs, and how to combine them."""

    paths: tuple[tuple[MapPath, Score], ...]
    combine: Callable[..., Tensor]


CHANGES: Mapping[str, Change] = {
    # The paper states that the first two are equal; only their sums over pixels are. The authors' code uses the third.
    "difference": Change(
        ((MapPath.TO_PERTURBED, true_probability), (MapPath.TO_CLEAN, true_probability)),
        lambda after, before: after - before,
    ),
    "path": Change(((MapPath.BETWEEN, true_probability),), lambda along: along),
    "loss-path": Change(((MapPath.BETWEEN, true_loss),), lambda along: -along),
}


@dataclass(frozen=True, kw_only=True)
class WACR(Loss):
    """Weighted attribution change regularizer, S(dA) on P1 + S(A * dA) on P2 (Eq. 9).

    `change` selects dA: "difference" is IG(x0, x') - IG(x0, x) and "path" is IG(x, x'), both of the true probability;
    "loss-path" is minus IG(x, x') of the loss (released code). `granularity` is "pixel" (channels summed, as the paper
    says) or "entry" (released code). `size` selects S, "l1" or "l2". `base_attribution=False` is the ablation that uses
    S(dA) on P2 as well. `steps` is the number of points of integrated gradients.

    >>> import torch
    >>> from holdfast.types import Pair
    >>> x, x_adv = torch.tensor([[[[0.5, 0.2]]]]), torch.tensor([[[[0.4, 0.3]]]])
    >>> loss = WACR(steps=10)(lambda x: x.flatten(1) * 3, Pair(x, x_adv, torch.tensor([0])))
    >>> loss.shape, round(loss.item(), 4)
    (torch.Size([1]), 0.0624)
    """

    steps: int = 50
    change: str = "difference"
    granularity: str = "pixel"
    size: str = "l1"
    base_attribution: bool = True

    def __post_init__(self) -> None:
        pick(SIZES, self.size, "size")
        pick(GRANULARITIES, self.granularity, "granularity")
        if self.change not in CHANGES:
            raise expected(f"change to be one of {', '.join(CHANGES)}", got=repr(self.change))

    @property
    def requests(self) -> tuple[MapRequest, ...]:
        return (self._base, *self._moves)

    @property
    def _base(self) -> MapRequest:
        return self._request(MapPath.TO_CLEAN, true_probability)

    @property
    def _moves(self) -> tuple[MapRequest, ...]:
        return tuple(self._request(path, score) for path, score in CHANGES[self.change].paths)

    def _request(self, path: MapPath, score: Score) -> MapRequest:
        # the same settings for all paths, so that losses with the same number of points share forward passes
        return MapRequest(path=path, attribution=path_ig(self.steps), score=score)

    def value(self, context: LossContext, clean: Clean) -> Tensor:
        coarse = GRANULARITIES[self.granularity]
        base = coarse(context.map(self._base))
        change = coarse(CHANGES[self.change].combine(*(context.map(request) for request in self._moves)))
        agrees = base.sign() == change.sign()  # P2; where both are zero the term is zero
        weighted = base * change if self.base_attribution else change
        first = context.log("wacr_p1", SIZES[self.size](change * ~agrees))
        second = context.log("wacr_p2", SIZES[self.size](weighted * agrees))
        share = context.log("share_p2", agrees.to(base.dtype).mean(1))
        context.log("share_p1", 1 - share)
        return first + second
