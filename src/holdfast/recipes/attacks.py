"""The named attacks of the papers as settings of the one loop."""

from collections.abc import Callable

from torch import Tensor

from holdfast.attacks import LAST, PGD, Ensemble, PGDExplanationAttack
from holdfast.attacks.balls import Ball, Linf
from holdfast.attribution import GradientMap, IntegratedGradients
from holdfast.errors import expected
from holdfast.losses import (
    CenterShift,
    CrossEntropy,
    KendallDrop,
    Loss,
    MapCosine,
    Margin,
    NoDirection,
    SoftTopK,
    TargetMass,
    TopKMass,
)
from holdfast.types import Attribution


def fgsm(*, eps: float) -> PGD:
    """One step of eps along the sign of the cross-entropy's gradient (Goodfellow et al. 2015)."""
    return PGD(CrossEntropy(), ball=Linf(eps), steps=1, step_size=eps, best_by=LAST)


def pgd(
    *,
    eps: float | None = None,
    ball: Ball | None = None,
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    random_start: bool = True,
    loss: Loss | None = None,
) -> PGD:
    """PGD on the prediction (Madry et al. 2018), stopping at an example as soon as its prediction is wrong.

    The step defaults to 2.5 eps / steps. `loss` defaults to the cross-entropy; `pgd_margin` ascends the margin.
    """
    ball = _ball(eps, ball)
    return PGD(
        loss or CrossEntropy(),
        ball=ball,
        steps=steps,
        step_size=2.5 * ball.eps / max(1, steps) if step_size is None else step_size,
        random_start=random_start,
        restarts=restarts,
        stop_when_fooled=True,
    )


def pgd_margin(*, eps: float, steps: int = 40, step_size: float | None = None, restarts: int = 1) -> PGD:
    """PGD on the margin loss (Carlini and Wagner 2017), which does not vanish where the network is confident."""
    return pgd(eps=eps, steps=steps, step_size=step_size, restarts=restarts, loss=Margin())


KINDS: dict[str, Callable[..., Loss]] = {
    "topk": lambda k, **shared: TopKMass(k=k, **shared),
    "center": lambda k, **shared: CenterShift(**shared),
    "target": lambda k, target, **shared: TargetMass(k=k, target=target, **shared),
    "cosine": lambda k, **shared: MapCosine(**shared),
    "soft-topk": lambda k, **shared: SoftTopK(k=k, **shared),
    "random": lambda k, **shared: NoDirection(),
}
"""Kind of IFIA -> the loss it ascends, from k and the settings that all map losses share."""


def ifia(
    *,
    eps: float | None = None,
    step_size: float,
    steps: int,
    k: int,
    ig_steps: int = 100,
    search_ig_steps: int | None = None,
    kind: str = "topk",
    eval_k: int | None = None,
    attribution: Attribution | None = None,
    target: Tensor | None = None,
    beta: float | None = 1.0,
    random_start: bool = False,
    restarts: int = 1,
    quantize: bool = False,
    ball: Ball | None = None,
    chunk: int | None = None,
) -> PGDExplanationAttack:
    """Iterative feature importance attack (Ghorbani et al. 2019; Eq. 3 of the paper), reference protocol by default.

    The direction is the gradient, on the softplus twin with sharpness `beta`, of the map of the true logit; the k top
    pixels and all scores come from the network itself. No random start. Of all iterates with the label kept, the one
    with the smallest Kendall's tau is returned. `kind`: topk, center, target (needs `target`), random (the control),
    and the differentiable stand-ins cosine and soft-topk. `eval_k` is the k of the reported top-k intersection.

    `search_ig_steps` is the fast protocol: inside the search, maps are integrated with so few midpoints (10 are enough
    on the small CNN), and only the image that was found is judged by the full map of `ig_steps` points.
    """
    if kind not in KINDS:
        raise expected(f"a kind out of {', '.join(KINDS)}", got=repr(kind))
    if (kind == "target") != (target is not None):
        raise expected(
            "a target map with kind='target' and only then", got=f"kind={kind!r}, target={target is not None}"
        )
    explained = attribution or IntegratedGradients(steps=ig_steps, chunk=chunk)
    searched = explained if search_ig_steps is None else _cheaper(explained, search_ig_steps)
    shared: dict[str, object] = {"attribution": searched, "beta": beta}
    if target is not None:
        shared["target"] = target
    search = PGD(
        KINDS[kind](k, **shared),
        ball=_ball(eps, ball),
        steps=steps,
        step_size=step_size,
        random_start=random_start,
        restarts=restarts,
        keep_prediction=True,
        best_by=KendallDrop(attribution=searched),
        quantize=quantize,
        chunk=chunk,
    )
    return PGDExplanationAttack(pgd=search, attribution=explained, eval_k=k if eval_k is None else eval_k)


def _cheaper(attribution: Attribution, points: int) -> Attribution:
    if not isinstance(attribution, GradientMap):
        raise expected("search_ig_steps only with a map of holdfast", got=type(attribution).__name__)
    return attribution.with_points(points)


VARIANTS: tuple[tuple[bool, float], ...] = ((False, 1.0), (True, 5.0))
"""(random start, sharpness of the twin) of the ensemble's members: the reference, and a stronger one."""


def ifia_ensemble(
    *,
    eps: float,
    k: int,
    steps: int = 50,
    step_size: float | None = None,
    ig_steps: int = 100,
    search_ig_steps: int | None = None,
    eval_k: int | None = None,
    attribution: Attribution | None = None,
    kinds: tuple[str, ...] = ("topk", "center", "cosine", "soft-topk"),
    variants: tuple[tuple[bool, float], ...] = VARIANTS,
    restarts: int = 1,
    quantize: bool = False,
    chunk: int | None = None,
) -> Ensemble:
    """The strong attack: every kind from every variant; for each image the worst result counts.

    Members are named kind/start/beta. The step defaults to 2.5 eps / steps, so that each search can cross the ball.
    """
    members = {
        f"{kind}/{'random' if start else 'clean'}/beta={beta:g}": ifia(
            eps=eps,
            step_size=2.5 * eps / max(1, steps) if step_size is None else step_size,
            steps=steps,
            k=k,
            ig_steps=ig_steps,
            search_ig_steps=search_ig_steps,
            kind=kind,
            eval_k=eval_k,
            attribution=attribution,
            beta=beta,
            random_start=start,
            restarts=restarts if start else 1,
            quantize=quantize,
            chunk=chunk,
        )
        for kind in kinds
        for start, beta in variants
    }
    return Ensemble(members=members)


def _ball(eps: float | None, ball: Ball | None) -> Ball:
    if (eps is None) == (ball is None):
        raise expected("either eps (for the L-infinity ball) or a ball", got=f"eps={eps}, ball={ball}")
    return Linf(eps) if eps is not None else ball  # type: ignore[return-value]  # one of the two, checked above
