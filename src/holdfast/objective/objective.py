"""The training objective: a model, a loss and the attack that finds x', as one module.

    objective(x, y, keys) -> the total and its named parts

It is an `nn.Module`, so DistributedDataParallel can wrap it as a whole. A custom training loop only needs
`objective(x, y, keys).total.backward()`; for a first try, `objective(x, y)` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from holdfast.attacks.pgd import PGD
from holdfast.engine.checks import check_tensors
from holdfast.engine.microbatch import Parts, sum_in_slices
from holdfast.engine.passes import count_passes
from holdfast.errors import expected
from holdfast.losses.base import Loss
from holdfast.losses.context import LossContext
from holdfast.models.double_backward import require_second_order
from holdfast.rng import make_keys
from holdfast.types import Pair


@dataclass(frozen=True)
class Term:
    """A loss and the attack that finds its x'; without an attack x' = x. `name` prefixes the names of its parts."""

    loss: Loss
    attack: PGD | None = None
    name: str = ""


@dataclass(frozen=True)
class ObjectiveOutput:
    """The total to minimise, and its named parts as detached means over the batch, for the log."""

    total: Tensor
    parts: dict[str, Tensor]


class Objective(nn.Module):
    """The losses of all `terms`, averaged over the batch (`reduction="sum"`: summed, as in the released code).

    `budget` in [0, 1] scales the radius and step size of every attack, so that a trainer can warm it up from 0.
    `example_passes` counts the example-passes so far, see `holdfast.engine.passes`.

    >>> from holdfast.losses import CrossEntropy
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> objective = Objective(net, [Term(CrossEntropy(at="clean"))])
    >>> output = objective(torch.rand(2, 1, 2, 2), torch.tensor([0, 2]), keys=torch.arange(2))
    >>> output.total.backward()
    >>> sorted(output.parts)
    ['accuracy_clean', 'ce_clean', 'total']
    """

    def __init__(self, model: nn.Module, terms: Sequence[Term], *, reduction: str = "mean", name: str = "") -> None:
        super().__init__()
        if not terms:
            raise expected("at least one term", got="none")
        if reduction not in ("mean", "sum"):
            raise expected("reduction = 'mean' or 'sum'", got=repr(reduction))
        self.model = model
        self.terms = tuple(terms)
        self.reduction = reduction
        self.name = name
        self.budget = 1.0
        self.example_passes = 0

    def forward(self, x: Tensor, y: Tensor, keys: Tensor | None = None) -> ObjectiveOutput:
        """Find x' for every term, evaluate the losses and reduce them.

        Without `keys`, the noise follows from the place in the batch and from `example_passes`. That is for a first
        try: with the keys of the examples, the result does not depend on how they are put into batches.
        """
        check_tensors(x=x, y=y)
        if keys is None:
            keys = make_keys(0, torch.arange(len(y), device=y.device), stream=self.example_passes)
        totals: list[Tensor] = []
        parts: dict[str, Tensor] = {}
        with count_passes() as counter:
            for term in self.terms:
                x_adv = x if term.attack is None else self._scaled(term.attack)(self.model, x, y, keys=keys)
                value, found = summed(term.loss, self.model, Pair(x, x_adv, y, keys=keys))
                prefix = f"{term.name}/" if term.name else ""
                totals.append(value)
                parts |= {prefix + name: part.mean() for name, part in found.items()}
        self.example_passes += counter.passes
        total = torch.stack(totals).sum()
        total = total / len(y) if self.reduction == "mean" else total
        return ObjectiveOutput(total, {"total": total.detach()} | parts)

    def check_network(self, x: Tensor) -> None:
        """Reject a network that cannot be differentiated twice if a loss needs that; `x` [1, C, H, W] is an image."""
        if any(term.loss.second_order for term in self.terms):
            require_second_order(self.model, x)

    def _scaled(self, attack: PGD) -> PGD:
        if self.budget >= 1.0:
            return attack
        return replace(attack, ball=attack.ball.scaled(self.budget), step_size=attack.step_size * self.budget)

    def extra_repr(self) -> str:
        return f"{self.name}, terms={self.terms}, reduction={self.reduction!r}"


def summed(loss: Loss, model: nn.Module, pair: Pair) -> tuple[Tensor, Parts]:
    """The sum of a loss over the batch and its named parts [B], in slices of the batch if the result is the same."""

    def evaluate(rows: slice | None) -> tuple[Tensor, Parts]:
        some, here = pair, loss
        if rows is not None:
            keys = None if pair.keys is None else pair.keys[rows]
            some = Pair(pair.x[rows], pair.x_adv[rows], pair.y[rows], keys=keys)
            here = loss.for_rows(torch.arange(rows.start, rows.stop))
        context = here.context(model, some)
        value = here.value(context, here.prepare(model, some))
        return value, context.parts | _accuracies(context)

    whole = pair.x_adv.requires_grad  # the caller needs a gradient in the image
    return sum_in_slices(evaluate, model, pair.x, points=loss.points, twice=loss.second_order, whole=whole)


def _accuracies(context: LossContext) -> dict[str, Tensor]:
    """Accuracy at the images whose logits the losses have computed; no extra forward pass is made."""
    if any(logits.shape[1] < 2 for logits in context.known_logits.values()):
        raise expected(
            "a network with at least two logits to train", got="one", fix="the softmax of a single logit is constant"
        )
    return {
        f"accuracy_{at}": (logits.detach().argmax(1) == context.pair.y).to(logits.dtype)
        for (at, beta), logits in context.known_logits.items()
        if beta is None
    }
