"""A universal perturbation: one for all images, found on some of them and applied to others."""

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.balls import Linf
from holdfast.attacks.base import clean_side
from holdfast.attacks.members import Adam, Ascent
from holdfast.attacks.problem import Problem
from holdfast.attribution.saliency import map_of
from holdfast.engine.modes import evaluating
from holdfast.errors import expected
from holdfast.losses.base import select
from holdfast.metrics.maps import has_ranking
from holdfast.metrics.registry import METRICS
from holdfast.types import Attribution, Model

STARTS, OFFERS = 8, 10
"""Random sign patterns that are tried first, and how often an iterate is judged."""


@dataclass(frozen=True, eq=False)
class SharedPerturbation:
    """Proposes x + delta, with the same `delta` [1, C, H, W] for every image."""

    delta: Tensor

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        return x + self.delta.to(x)

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.delta.cpu().numpy().tobytes()).hexdigest()[:16]
        return f"SharedPerturbation(delta={digest!r})"


def fit_universal(
    model: Model,
    x: Tensor,
    y: Tensor,
    *,
    keys: Tensor,
    member: Ascent,
    k: int,
    attribution: Attribution,
    ball: Linf,
    steps: int,
    batch_size: int,
) -> SharedPerturbation:
    """Find the delta in `ball` with the most damage to the metric of `member`, averaged over the images x.

    The search starts from the worst of `STARTS` random sign patterns. Each step takes the mean gradient over the next
    `batch_size` images, with Adam and a cosine step size. Now and then the iterate is judged by the true metric on all
    images, and the worst delta is returned. Images that are misclassified or have no map are left out.
    """
    with evaluating(model):
        clean = clean_side(model, x, y, attribution)
        usable = (clean.right & has_ranking(clean.maps)).nonzero().flatten()
        if not len(usable):
            raise expected("at least one correctly predicted image with a map", got=f"none of {len(x)}")
        everything = Problem(
            model=model,
            x=x[usable],
            y=y[usable],
            keys=keys[usable],
            ball=ball,
            attribution=attribution,
            searched=attribution,
            clean_maps=clean.maps[usable],
            points=int(getattr(attribution, "points", 1)),
        )
        worst = _Worst(everything, member.metric, k)
        for number in range(STARTS):
            signs = rng.signs(rng.combine(everything.keys[:1], number), everything.x[:1])
            worst.offer(ball.eps * signs)
        prepared = member.prepare(everything)
        delta, adam = worst.delta, Adam(worst.delta)
        for step in range(steps):
            rows = (torch.arange(batch_size, device=x.device) + step * batch_size) % len(everything)
            rows = rows.unique()
            part = everything.rows(rows)
            there = ball.project(part.x + delta, part.x)
            gradient = member.gradient(part, there, select(prepared, rows), step / max(1, steps - 1), step)
            rate = member.rate * 0.5 * (1 + math.cos(math.pi * step / steps)) * ball.eps
            delta = (delta + rate * adam.direction(gradient.mean(0, keepdim=True))).clamp(-ball.eps, ball.eps)
            if (step + 1) % max(1, steps // OFFERS) == 0:
                worst.offer(delta)
                worst.offer(ball.eps * delta.sign())
    return SharedPerturbation(worst.delta)


class _Worst:
    """The most damaging delta so far, by the mean of a metric over the images; a lost label counts as 1."""

    def __init__(self, problem: Problem, metric: str, k: int) -> None:
        self.problem, self.metric, self.k = problem, metric, k
        self.value, self.delta = math.inf, torch.zeros_like(problem.x[:1])

    def offer(self, delta: Tensor) -> None:
        problem = self.problem
        x_adv = problem.ball.project(problem.x + delta, problem.x)
        shown = map_of(problem.model, x_adv, problem.y, problem.attribution).detach()
        values = METRICS[self.metric](problem.clean_maps, shown, k=self.k)
        value = float(torch.where(problem.labels(x_adv) == problem.y, values, 1.0).nanmean())
        if value < self.value:
            self.value, self.delta = value, delta
