"""The strongest attack and its gradient members."""

from holdfast.attacks import Ascent, StrongestAttack
from holdfast.attacks.balls import Ball
from holdfast.attacks.strongest import EDITION
from holdfast.attribution import IntegratedGradients, centred_logit
from holdfast.losses import LogTopK, SoftKendall
from holdfast.recipes.attacks.ball import given_ball
from holdfast.types import Attribution

THOROUGH = 20_000
"""Passes per image of the thorough form of `strongest`."""


def strongest(
    *,
    k: int,
    eps: float | None = None,
    passes: int = 2000,
    ig_steps: int = 50,
    judge_points: int = 5,
    attribution: Attribution | None = None,
    searched: Attribution | None = None,
    quantize: bool = False,
    ball: Ball | None = None,
    chunk: int | None = None,
) -> StrongestAttack:
    """The strongest attack: gradient members on the exact-value surrogate and gradient-free ones share a budget.

        maximised in the input:  the damage to top-k intersection and to Kendall's tau, with the label of x kept

    The map is that of the centred logit by default: integrated gradients with `ig_steps` points. `attribution` replaces
    it; `searched` is a stand-in for the search if that map cannot be differentiated, by default its `search_map`.
    `passes` is the budget of example-passes per image, `THOROUGH` a large one. Candidates are judged with
    `judge_points` points; the images found are scored with the full map. The worst image is kept for each of the two
    metrics. docs/attack.md describes the members and what each of them adds.

    Pass `eps` for the L-infinity ball, or a `ball`. `k` is that of the top-k intersection. `quantize` restricts
    perturbations to whole grey levels of 1/255. `chunk` limits the images per forward pass.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="test").x[:2])
    >>> result = strongest(eps=0.1, k=10, passes=400).run(model, x, y=model(x).argmax(1), keys=torch.arange(2))
    >>> bool(((result.x_adv - x).abs() <= 0.1 + 1e-6).all()), result.counts["attacked"]
    (True, 2)
    """
    return StrongestAttack(
        attribution=attribution or IntegratedGradients(steps=ig_steps, score=centred_logit, chunk=chunk),
        searched=searched or getattr(attribution, "search_map", None),
        ball=given_ball(eps, ball),
        eval_k=k,
        members=members(k),
        passes=passes,
        judge_points=judge_points,
        quantize=quantize,
        chunk=chunk,
        edition=EDITION,
    )


def members(k: int) -> tuple[Ascent, ...]:
    """The gradient members of `strongest`; to add one, add a line. `GRADIENT_FREE` lists the others.

    Networks differ in how far ahead a search must look for kinks. The wide members win on networks that were trained
    for stable maps, the sharp ones on residual networks.
    """
    wide, sharp, ranks = LogTopK(k=k, wide=1.0, narrow=0.1), LogTopK(k=k), SoftKendall()
    return (
        Ascent(name="topk-wide", metric="top_k", loss=wide, widths=(0.5, 0.05)),
        Ascent(name="topk-sharp", metric="top_k", loss=sharp, widths=(0.05, 0.005), rate=0.8, memory=8),
        Ascent(
            name="kendall-contrast",
            metric="kendall",
            loss=ranks,
            widths=(0.15, 0.05),
            start="contrast",
            rate=0.1,
            points=3,
        ),
        Ascent(
            name="kendall-sharp",
            metric="kendall",
            loss=ranks,
            widths=(0.05, 0.01),
            start="contrast",
            rate=0.2,
            memory=8,
        ),
    )
