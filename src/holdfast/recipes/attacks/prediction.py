"""Attacks on the prediction: FGSM, PGD and Auto-PGD.

CE(x) is the cross-entropy -log softmax(f(x))_y.
"""

from collections.abc import Callable

from holdfast.attacks import APGD, LAST, PGD
from holdfast.attacks.balls import Ball, Linf
from holdfast.errors import expected
from holdfast.losses import DLR, CrossEntropy, Loss, Margin
from holdfast.recipes.attacks.ball import given_ball


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
    ball = given_ball(eps, ball)
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
    return APGD(ascended, ball=given_ball(eps, ball), steps=steps, restarts=restarts)


def apgd_pair(*, eps: float, steps: int = 50, restarts: int = 1) -> tuple[APGD, ...]:
    """The attacks behind the column "APGD acc.": Auto-PGD on the cross-entropy, then on the difference of logits ratio.

    An evaluation runs the second on the images that the first has not fooled.

    >>> [type(attack.loss).__name__ for attack in apgd_pair(eps=0.1)]
    ['CrossEntropy', 'DLR']
    """
    return tuple(apgd(eps=eps, steps=steps, loss=loss, restarts=restarts) for loss in LOSSES)
