"""Auto-PGD (Croce and Hein 2020): PGD on the prediction that chooses its step size itself, for each example.

The first step size is 2 eps. With z = project(x_t + size * step(grad loss(x_t))), a step has momentum,

    x_{t+1} = project(x_t + 0.75 (z - x_t) + 0.25 (x_t - x_{t-1})),      x_1 = z.

At checkpoint w_j, after w_j steps, an example halves its step size and continues from its best point if

    1. the loss has increased in fewer than 0.75 (w_j - w_{j-1}) of the steps since the last checkpoint, or
    2. neither the step size nor the best loss has changed since the last checkpoint.
"""

from dataclasses import KW_ONLY, dataclass, fields, replace

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.active import ActiveExamples
from holdfast.attacks.ascent import Seen, look
from holdfast.attacks.balls import Ball
from holdfast.attacks.pgd import AttackResult, nothing_yet
from holdfast.engine.checks import check_batch, check_labels
from holdfast.engine.gradients import check_chunk, images_per_pass
from holdfast.engine.modes import evaluating, frozen
from holdfast.engine.ops import per_example
from holdfast.engine.predictions import predictions
from holdfast.errors import expected
from holdfast.losses.base import Loss
from holdfast.types import MapCache, Model, Pair

MOMENTUM = 0.75
"""Share of the new step in the direction; the rest is the previous step."""
ENOUGH_INCREASES = 0.75
"""Share of the steps in which the loss must increase for the step size to be kept."""


def checkpoints(steps: int) -> tuple[int, ...]:
    """The steps w_1, w_2, ... at which step sizes are reconsidered.

    w_j = ceil(p_j steps) with p_0 = 0, p_1 = 0.22 and p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06).

    >>> checkpoints(100)
    (22, 41, 57, 70, 80, 87, 93, 99)
    """
    percents = [0, 22]
    while (following := percents[-1] + max(percents[-1] - percents[-2] - 3, 6)) <= 100:
        percents.append(following)
    return tuple(dict.fromkeys(-(-percent * steps // 100) for percent in percents[1:] if steps))


@dataclass
class _Walk:
    """The search of each example: all fields are tensors [B, ...]."""

    x: Tensor
    before: Tensor
    """The point before x."""
    value: Tensor
    gradient: Tensor
    best: Tensor
    """The point with the largest loss so far, then its loss and gradient."""
    best_value: Tensor
    best_gradient: Tensor
    size: Tensor
    increases: Tensor
    """Steps since the last checkpoint that have increased the loss."""
    checked_value: Tensor
    """The best loss at the last checkpoint."""
    was_halved: Tensor
    """Whether the step size was halved at the last checkpoint."""

    @classmethod
    def begin(cls, x: Tensor, seen: Seen, size: float) -> "_Walk":
        assert seen.gradient is not None
        value, gradient = seen.value, seen.gradient
        no = torch.zeros_like(value, dtype=torch.bool)
        sizes, increases = torch.full_like(value, size), torch.zeros_like(value, dtype=torch.int64)
        return cls(x, x, value, gradient, x, value, gradient, sizes, increases, value, no)

    def keep(self, alive: Tensor) -> "_Walk":
        """Only the examples for which `alive` [B] is true."""
        if bool(alive.all()):
            return self
        return replace(self, **{field.name: getattr(self, field.name)[alive] for field in fields(self)})

    def next_point(self, ball: Ball, clean: Tensor, *, momentum: float) -> Tensor:
        direction = ball.step(self.gradient.nan_to_num(nan=0.0, posinf=1e30, neginf=-1e30))
        ahead = ball.project(self.x + per_example(self.size, self.x) * direction, clean)
        return ball.project(self.x + momentum * (ahead - self.x) + (1 - momentum) * (self.x - self.before), clean)

    def move(self, x: Tensor, seen: Seen) -> None:
        """Step to x, where the loss and its gradient are `seen`."""
        assert seen.gradient is not None
        self.increases = self.increases + (seen.value > self.value)
        self.before, self.x, self.value, self.gradient = self.x, x, seen.value, seen.gradient
        better = seen.value > self.best_value
        self.best_value = torch.where(better, seen.value, self.best_value)
        self.best, self.best_gradient = (
            torch.where(per_example(better, x), new, old)
            for new, old in ((x, self.best), (seen.gradient, self.best_gradient))
        )

    def reconsider(self, steps: int) -> None:
        """Halve step sizes at a checkpoint; `steps` is the number of steps since the last one."""
        rarely = self.increases < ENOUGH_INCREASES * steps
        nothing_new = ~self.was_halved & (self.best_value == self.checked_value)
        halved = rarely | nothing_new
        self.size = torch.where(halved, self.size / 2, self.size)
        self.x, self.value, self.gradient = (
            torch.where(per_example(halved, best), best, here)
            for best, here in (
                (self.best, self.x),
                (self.best_value, self.value),
                (self.best_gradient, self.gradient),
            )
        )
        self.increases = torch.zeros_like(self.increases)
        self.checked_value, self.was_halved = self.best_value, halved


@dataclass(frozen=True)
class APGD:
    """Auto-PGD: ascend `loss` inside `ball` with `steps` steps from a random start (Croce and Hein 2020).

    The search for an example stops as soon as its prediction is not y; for the others the point with the largest loss
    is returned. `restarts` repeats the search from other random starts. `chunk` limits the images per forward pass.

    The increases of condition 1 compare each point with the point before it, as in the paper. At a checkpoint they are
    the w_j - w_{j-1} steps that end there.

    >>> from holdfast.attacks.balls import Linf
    >>> from holdfast.losses import CrossEntropy
    >>> attack = APGD(CrossEntropy(), ball=Linf(0.25), steps=5)
    >>> x, y = torch.tensor([[[[0.6, 0.5]]]]), torch.tensor([0])
    >>> attack.run(lambda x: x.flatten(1), x, y, keys=torch.tensor([0])).fooled
    tensor([True])
    """

    loss: Loss
    _: KW_ONLY
    ball: Ball
    steps: int = 50
    random_start: bool = True
    restarts: int = 1
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)
        if self.steps < 0:
            raise expected("steps >= 0", got=self.steps)
        if self.restarts < 1 or (self.restarts > 1 and not self.random_start):
            raise expected("one restart, or several with a random start", got=self.restarts)
        if self.loss.second_order:
            fix = "attack explanations with holdfast.recipes.ifia"
            raise expected("a loss of the prediction", got=type(self.loss).__name__, fix=fix)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images shaped like x, detached, inside the ball and the pixel range."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, active: Tensor | None = None) -> AttackResult:
        """The perturbed images with details of the search; examples that are not `active` [B] stay unchanged."""
        check_batch(x, y, keys)
        x, result = x.detach(), nothing_yet(x)
        rows = torch.arange(x.shape[0], device=x.device) if active is None else active.nonzero().flatten()
        if rows.numel() == 0:
            return result
        some = replace(self, loss=self.loss.for_rows(rows))
        with evaluating(model), frozen(model):
            some._search(model, ActiveExamples(rows, x[rows], y[rows], keys[rows], None, {}, None, MapCache()), result)
        return result

    def _search(self, model: Model, batch: ActiveExamples, result: AttackResult) -> None:
        clean = predictions(model, batch.x, self._images_per_pass(batch.x))
        check_labels(batch.y, batch.x.shape[0], clean.classes)
        wrong = clean.labels != batch.y  # already misclassified: done
        result.fooled[batch.rows] = result.found[batch.rows] = wrong
        for restart in range(self.restarts):
            left = batch.keep(~result.fooled[batch.rows])
            if left.rows.numel():
                self._climb(model, left, restart, result)

    def _climb(self, model: Model, batch: ActiveExamples, restart: int, result: AttackResult) -> None:
        """Run one search from one start and write the best points into `result`."""
        x = self.ball.sample(rng.combine(batch.keys, restart), batch.x) if self.random_start else batch.x
        with torch.no_grad():
            batch = replace(batch, clean=self.loss.prepare(model, Pair(batch.x, x, batch.y)))
        seen = self._look(model, batch, x)
        walk = _Walk.begin(x, seen, 2 * self.ball.eps)
        checks, last = checkpoints(self.steps), 0
        for step in range(1, self.steps + 1):
            alive = self._keep_best(model, batch, x, seen, result)
            batch, walk = batch.keep(alive), walk.keep(alive)
            if batch.rows.numel() == 0:
                return
            x = walk.next_point(self.ball, batch.x, momentum=MOMENTUM if step > 1 else 1.0)
            seen = self._look(model, batch, x)
            walk.move(x, seen)
            if step in checks:
                walk.reconsider(step - last)
                last = step
        self._keep_best(model, batch, x, seen, result)

    def _look(self, model: Model, batch: ActiveExamples, x: Tensor) -> Seen:
        return look(self.loss, model, batch, x, images_per_pass=self._images_per_pass(x), gradient=True)

    def _keep_best(self, model: Model, batch: ActiveExamples, x: Tensor, seen: Seen, result: AttackResult) -> Tensor:
        """Write the points to keep into `result`; returns which examples continue, bool [B]."""
        labels = seen.labels
        if labels is None:
            labels = predictions(model, x, self._images_per_pass(x)).labels
        fooled = labels != batch.y
        chosen = fooled | (seen.value > result.value[batch.rows])
        rows = batch.rows[chosen]
        result.x_adv[rows] = x[chosen]
        result.found[rows] = True
        result.value[rows] = seen.value[chosen].to(result.value.dtype)
        result.feasible[batch.rows] += 1
        result.fooled[batch.rows] |= fooled
        return ~fooled

    def _images_per_pass(self, x: Tensor) -> int:
        return self.chunk or images_per_pass(x)
