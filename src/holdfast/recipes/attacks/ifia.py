"""Iterative feature importance attack, IFIA (Ghorbani et al. 2019), and its kinds."""

from collections.abc import Callable

from torch import Tensor

from holdfast.attacks import PGD, PGDExplanationAttack
from holdfast.attacks.balls import Ball
from holdfast.attribution import GradientMap, IntegratedGradients
from holdfast.errors import expected
from holdfast.losses import CenterShift, KendallDrop, Loss, MapCosine, NoDirection, SoftTopK, TargetMass, TopKMass
from holdfast.recipes.attacks.ball import given_ball
from holdfast.types import Attribution

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
        ball=given_ball(eps, ball),
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
