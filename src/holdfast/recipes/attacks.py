"""The attacks of the papers as settings of the PGD loop.

CE(x) is the cross-entropy -log softmax(f(x))_y. Equation numbers are those of *Enhanced Regularizers for Attributional
Robustness* ("the paper").
"""

from collections.abc import Callable

from torch import Tensor

from holdfast.attacks import (
    APGD,
    LAST,
    PGD,
    Ascent,
    Ensemble,
    PGDExplanationAttack,
    ProposalAttack,
    StrongestAttack,
    fit_universal,
)
from holdfast.attacks.balls import Ball, Linf
from holdfast.attribution import GradientMap, IntegratedGradients, centred_logit
from holdfast.errors import expected
from holdfast.losses import (
    DLR,
    CenterShift,
    CrossEntropy,
    KendallDrop,
    LogTopK,
    Loss,
    MapCosine,
    Margin,
    NoDirection,
    SoftKendall,
    SoftTopK,
    TargetMass,
    TopKMass,
)
from holdfast.types import Attribution, Model


def fgsm(*, eps: float) -> PGD:
    """FGSM (Goodfellow et al. 2015).

        maximised in the input:  CE(x')  over  |x' - x| <= eps

    The attack takes one step of size `eps`: x' = x + eps sign(grad CE(x)), clipped to [0, 1].
    """
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
    """PGD on the prediction (Madry et al. 2018).

        maximised in the input:  CE(x')  over the ball of radius eps around x

    The search for an example stops as soon as its prediction is wrong. Pass `eps` for the L-infinity ball, or a `ball`.
    `steps` and `step_size` set the number and size of the steps; `step_size` defaults to 2.5 eps / steps.
    `random_start` samples the start from the ball; `restarts` repeats the search from other starts. `loss` replaces the
    cross-entropy; `pgd_margin` uses the margin.

    >>> import torch
    >>> x, y = torch.tensor([[[[0.6, 0.5]]]]), torch.tensor([0])
    >>> x_adv = pgd(eps=0.25, steps=4)(lambda x: x.flatten(1) * 3, x, y, keys=torch.tensor([0]))
    >>> bool(x_adv[0, 0, 0, 0] < x_adv[0, 0, 0, 1])
    True
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
    """PGD on the margin loss (Carlini and Wagner 2017), which does not vanish where the network is confident.

        maximised in the input:  max_{c != y} f_c(x') - f_y(x')  over  |x' - x| <= eps

    The settings are those of `pgd`; the start is random.
    """
    return pgd(eps=eps, steps=steps, step_size=step_size, restarts=restarts, loss=Margin())


KINDS: dict[str, Callable[..., Loss]] = {
    "topk": lambda k, **shared: TopKMass(k=k, **shared),
    "center": lambda k, **shared: CenterShift(**shared),
    "target": lambda k, target, **shared: TargetMass(k=k, target=target, **shared),
    "cosine": lambda k, **shared: MapCosine(**shared),
    "soft-topk": lambda k, **shared: SoftTopK(k=k, **shared),
    "random": lambda k, **shared: NoDirection(),
}
"""Kind of IFIA -> the loss that it maximises, built from k and the settings that all map losses share."""


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
    stuck: str = "random",
    ball: Ball | None = None,
    chunk: int | None = None,
) -> PGDExplanationAttack:
    """Iterative feature importance attack, IFIA (Ghorbani et al. 2019; Eq. 3 of the paper).

        maximised in the input:  D(I(x), I(x'))  over the ball of radius eps around x, with the label of x kept

    I is the saliency map of the true logit. `kind` selects D:

    - "topk": minus the mass of I(x') on the k largest pixels of I(x);
    - "center": the squared distance between the centres of mass;
    - "target": the mass of I(x') on the k largest pixels of the map `target`;
    - "cosine": 1 - cosine, a differentiable substitute for rank correlation;
    - "soft-topk": a differentiable substitute for top-k intersection;
    - "random": the random control, with keyed random signs as step directions.

    The defaults are the reference protocol. The gradient of D is computed on the softplus surrogate with sharpness
    `beta`; the top-k pixels and all scores come from the network itself. The search starts from the clean image. Of all
    iterates that keep the label, the one with the smallest Kendall's tau is returned.

    Pass `eps` for the L-infinity ball, or a `ball`. `steps` and `step_size` set the number and size of the steps.
    `ig_steps` is the number of points of integrated gradients; `attribution` replaces integrated gradients by another
    map. A map with a `search_map`, such as those of `hf.attribution.from_captum`, is only scored; the search ascends
    its `search_map`. `eval_k` is the k of the reported top-k intersection and defaults to `k`. `random_start` and
    `restarts` search from random starts. `quantize` restricts perturbations to whole grey levels of 1/255. `stuck` says
    what an example does where the gradient of D is exactly zero: "random" steps in a keyed random direction, "stay"
    does not move, as in RAR's code. `chunk` limits the images per forward pass.

    `search_ig_steps` selects the fast protocol. Inside the search, maps use that many points of the midpoint rule (10
    are enough on the small CNN). Only the image that the search returns is scored by the full map with `ig_steps`
    points.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="test").x[:2])
    >>> attack = ifia(eps=0.1, step_size=0.05, steps=2, k=10, ig_steps=5)
    >>> result = attack.run(model, x, y=model(x).argmax(1), keys=torch.arange(2))
    >>> bool(((result.x_adv - x).abs() <= 0.1 + 1e-6).all()), result.counts["attacked"]
    (True, 2)
    """
    if kind not in KINDS:
        raise expected(f"kind to be one of {', '.join(KINDS)}", got=repr(kind))
    if (kind == "target") != (target is not None):
        raise expected("a target map if and only if kind='target'", got=f"kind={kind!r}, target={target is not None}")
    explained = attribution or IntegratedGradients(steps=ig_steps, chunk=chunk)
    stand_in = getattr(explained, "search_map", None)  # of a map that cannot be differentiated twice
    searched = explained if stand_in is None else stand_in
    searched = searched if search_ig_steps is None else _cheaper(searched, search_ig_steps)
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
        best_by=KendallDrop(attribution=searched if stand_in is None else explained),
        quantize=quantize,
        stuck=stuck,
        chunk=chunk,
    )
    return PGDExplanationAttack(pgd=search, attribution=explained, eval_k=k if eval_k is None else eval_k)


def _cheaper(attribution: Attribution, points: int) -> Attribution:
    if not isinstance(attribution, GradientMap):
        raise expected("search_ig_steps only with a GradientMap", got=type(attribution).__name__)
    return attribution.with_points(points)


VARIANTS: tuple[tuple[bool, float], ...] = ((False, 1.0), (True, 5.0))
"""(random start, sharpness of the surrogate) of the ensemble members: the reference, and a stronger one."""


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
    """Ensemble of IFIA attacks: runs every kind in every variant and returns the worst result for each image.

    Each member is an `ifia` attack and maximises the loss D of its kind in the input (Eq. 3 of the paper). `kinds` are
    the kinds to run; `variants` are pairs (random start, sharpness of the surrogate). Members are named
    kind/start/beta. The worst result is the one with the smallest Kendall's tau. `step_size` defaults to
    2.5 eps / steps, so that each search can cross the ball. `restarts` applies to the members with a random start. The
    other settings are those of `ifia`.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="test").x[:2])
    >>> attack = ifia_ensemble(eps=0.1, steps=2, k=10, ig_steps=5, kinds=("topk", "cosine"))
    >>> result = attack.run(model, x, y=model(x).argmax(1), keys=torch.arange(2))
    >>> result.names
    ('topk/clean/beta=1', 'topk/random/beta=5', 'cosine/clean/beta=1', 'cosine/random/beta=5')
    >>> bool((result.worst.kendall <= result.members[0].scores.kendall).all())
    True
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
        ball=_ball(eps, ball),
        eval_k=k,
        members=members(k),
        passes=passes,
        judge_points=judge_points,
        quantize=quantize,
        chunk=chunk,
    )


def universal(
    model: Model,
    x: Tensor,
    y: Tensor,
    *,
    keys: Tensor,
    eps: float,
    k: int,
    steps: int = 100,
    batch_size: int = 20,
    ig_steps: int = 50,
    search_ig_steps: int = 5,
    attribution: Attribution | None = None,
) -> ProposalAttack:
    """A universal perturbation: one delta for all images.

        maximised in delta:  the mean damage to the top-k of x + delta over the images x  over  |delta| <= eps

    It is found on the images `x` with labels `y` and applied to others, so use images that are not evaluated. The
    search starts from random signs and is that of the wide top-k member of `strongest`, with the mean gradient over
    `batch_size` images in each of `steps` steps. The map is that of the centred logit by default, with `ig_steps`
    points, and `search_ig_steps` in the search.

    >>> import torch
    >>> import holdfast as hf
    >>> model = hf.models.build("digits-cnn", seed=0)
    >>> x = hf.data.to_float(hf.data.load("digits", split="train").x[:8])
    >>> attack = universal(model, x, model(x).argmax(1), keys=torch.arange(8), eps=0.1, k=10, steps=5)
    >>> attack.propose.delta.shape, bool((attack.propose.delta.abs() <= 0.1).all())
    (torch.Size([1, 1, 8, 8]), True)
    """
    explained = attribution or IntegratedGradients(steps=ig_steps, score=centred_logit)
    searched = explained.with_points(search_ig_steps) if isinstance(explained, GradientMap) else explained
    delta = fit_universal(
        model,
        x,
        y,
        keys=keys,
        member=members(k)[0],
        k=k,
        attribution=searched,
        ball=Linf(eps),
        steps=steps,
        batch_size=batch_size,
    )
    return ProposalAttack(propose=delta, attribution=explained, eval_k=k, ball=Linf(eps))


THOROUGH = 20_000
"""Passes per image of the thorough form of `strongest`."""


def members(k: int) -> tuple[Ascent, ...]:
    """The gradient members of `strongest`; to add one, add a line.

    Networks differ in how far ahead a search must look for kinks. The wide members win on networks that were trained
    for stable maps, the sharp ones on residual networks.
    """
    wide, sharp, ranks = LogTopK(k=k, wide=1.0, narrow=0.1), LogTopK(k=k), SoftKendall()
    return (
        Ascent(name="topk-wide", metric="top_k", loss=wide, widths=(0.5, 0.05)),
        Ascent(name="topk-sharp", metric="top_k", loss=sharp, widths=(0.05, 0.005)),
        Ascent(
            name="kendall-contrast",
            metric="kendall",
            loss=ranks,
            widths=(0.15, 0.05),
            start="contrast",
            rate=0.1,
            points=3,
        ),
        Ascent(name="kendall-sharp", metric="kendall", loss=ranks, widths=(0.05, 0.01)),
    )


def _ball(eps: float | None, ball: Ball | None) -> Ball:
    if (eps is None) == (ball is None):
        raise expected("either eps (for the L-infinity ball) or a ball", got=f"eps={eps}, ball={ball}")
    return Linf(eps) if eps is not None else ball  # type: ignore[return-value]  # one of the two, checked above


LOSSES: dict[str, Callable[[], Loss]] = {"ce": CrossEntropy, "dlr": DLR}
"""Losses of `apgd` by name."""


def apgd(
    *, eps: float | None = None, ball: Ball | None = None, steps: int = 50, loss: str | Loss = "ce", restarts: int = 1
) -> APGD:
    """Auto-PGD on the prediction (Croce and Hein 2020), the core of AutoAttack.

        maximised in the input:  CE(x') ("ce") or the difference of logits ratio ("dlr") over the ball around x

    The attack sets its step sizes itself, and the search for an example stops as soon as its prediction is wrong. Pass
    `eps` for the L-infinity ball, or a `ball`. `loss` is "ce", "dlr" or a loss such as
    `holdfast.losses.DLR(target_rank=1)`. `restarts` repeats the search from other random starts.

    >>> import torch
    >>> x, y = torch.tensor([[[[0.6, 0.5, 0.1]]]]), torch.tensor([0])
    >>> attacks = [apgd(eps=0.25, steps=10, loss=name) for name in ("ce", "dlr")]
    >>> [bool(a.run(lambda x: x.flatten(1), x, y, keys=torch.tensor([0])).fooled) for a in attacks]
    [True, True]
    """
    if isinstance(loss, str) and loss not in LOSSES:
        raise expected(f"loss to be one of {', '.join(LOSSES)}, or a Loss", got=repr(loss))
    ascended = LOSSES[loss]() if isinstance(loss, str) else loss
    return APGD(ascended, ball=_ball(eps, ball), steps=steps, restarts=restarts)


def apgd_pair(*, eps: float, steps: int = 50, restarts: int = 1) -> tuple[APGD, ...]:
    """The attacks behind the column "APGD acc.": Auto-PGD on the cross-entropy, then on the difference of logits ratio.

    An evaluation runs the second on the images that the first has not fooled.

    >>> [type(attack.loss).__name__ for attack in apgd_pair(eps=0.1)]
    ['CrossEntropy', 'DLR']
    """
    return tuple(apgd(eps=eps, steps=steps, loss=loss, restarts=restarts) for loss in LOSSES)
