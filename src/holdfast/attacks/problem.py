"""The images of one search on explanations, and what all its members share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.balls import Ball, Linf
from holdfast.engine.cpu_kernels import fast_kernels_for
from holdfast.engine.gradients import check_logits, images_per_pass
from holdfast.engine.parallel import map_chunks
from holdfast.engine.passes import add_passes
from holdfast.engine.predictions import predictions
from holdfast.types import Attribution, Model

GREY_LEVELS = 255


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Images x with labels y [B] and keys [B], the threat model, and the map with its clean values [B, H, W].

    `searched` is the map that gradients are taken of; it differs from `attribution`, which is scored, where that one
    cannot be differentiated. `points` is the number of points that the map really needs: one for networks
    with f(a x) = f(x). `quantize` restricts perturbations to whole grey levels of 1/255. `clean_margins` [B] are the
    margins of the clean images if they are known.
    """

    model: Model
    x: Tensor
    y: Tensor
    keys: Tensor
    ball: Ball
    attribution: Attribution
    searched: Attribution
    clean_maps: Tensor
    points: int = 1
    quantize: bool = False
    chunk: int | None = None
    clean_margins: Tensor | None = None

    def __len__(self) -> int:
        return self.x.shape[0]

    @property
    def images_per_pass(self) -> int:
        """Images per forward pass."""
        return self.chunk or images_per_pass(self.x)

    def rows(self, rows: Tensor) -> "Problem":
        """The problem for some of the images; `rows` is a mask or an index."""
        known = None if self.clean_margins is None else self.clean_margins[rows]
        maps = self.clean_maps[rows]
        return replace(self, x=self.x[rows], y=self.y[rows], keys=self.keys[rows], clean_maps=maps, clean_margins=known)

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Logits [B, K] of x."""
        add_passes(x.shape[0], 1)

        def of_rows(part: slice) -> Tensor:
            with fast_kernels_for(self.model, x[part]):
                return check_logits(self.model(x[part]), x[part])

        return torch.cat(map_chunks(self.model, x, x.shape[0], self.images_per_pass, of_rows))

    def margins_of_clean_images(self) -> Tensor:
        """Margins [B] of the clean images; computed if they are not known."""
        return margins(self.logits(self.x), self.y) if self.clean_margins is None else self.clean_margins

    def labels(self, x_adv: Tensor) -> Tensor:
        """Predicted labels [B]."""
        return predictions(self.model, x_adv, self.images_per_pass).labels

    def random_start(self, number: int) -> Tensor:
        """A keyed random point of the ball, inside the pixel range; `number` selects one of many."""
        keys = rng.combine(self.keys, number)
        if not isinstance(self.ball, Linf):
            return self.ball.sample(keys, self.x)
        # Sampling between the bounds themselves, instead of clipping, leaves no pixel exactly at the baseline.
        low, high = (self.x - self.ball.eps).clamp_min(0), (self.x + self.ball.eps).clamp_max(1)
        return self.ball.project(low + rng.uniform(keys, self.x) * (high - low), self.x)

    def allowed(self, x_adv: Tensor) -> Tensor:
        """The image that the network receives: inside ball and pixel range, with `quantize` on whole grey levels."""
        x_adv = self.ball.project(x_adv, self.x)
        return to_grey_levels(x_adv, self.x) if self.quantize else x_adv


def to_grey_levels(x_adv: Tensor, x: Tensor) -> Tensor:
    """x_adv rounded towards x to whole grey levels of 1/255, which keeps it in the ball."""
    levels = (x_adv - x) * GREY_LEVELS
    return ((x * GREY_LEVELS).round() + (levels + 1e-3 * levels.sign()).trunc()) / GREY_LEVELS


def margins(logits: Tensor, y: Tensor) -> Tensor:
    """True logit minus the largest other logit, [B]: positive where the label is predicted."""
    others = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return logits.gather(1, y[:, None])[:, 0] - others
