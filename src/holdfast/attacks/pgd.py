"""The batched PGD loop. PGD attacks on predictions and explanations, and those in training, are settings of it.

    x_{t+1} = project(x_t + step_size * step(grad loss(x_t)))             (Eq. 2 of the paper)

PGD ascends any per-example loss, keeps for each example the best iterate that satisfies the constraint, and skips
examples that are done. Examples of a batch do not influence each other: random starts and random steps depend only on
the key of the example.
"""

from dataclasses import KW_ONLY, dataclass, field, replace

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.active import ActiveExamples
from holdfast.attacks.ascent import Seen, look
from holdfast.attacks.balls import Ball
from holdfast.engine.checks import check_batch, check_labels
from holdfast.engine.gradients import check_chunk, images_per_pass
from holdfast.engine.modes import evaluating, frozen
from holdfast.engine.ops import flatten
from holdfast.engine.predictions import predictions
from holdfast.engine.second_order import second_order
from holdfast.errors import expected
from holdfast.losses.base import Loss
from holdfast.losses.map_distance import NoDirection
from holdfast.models.double_backward import require_second_order
from holdfast.types import MapCache, Model, Pair


class Last:
    """`best_by=LAST`: keep the last iterate, or the last with the same label if `keep_prediction`, as in training."""


LAST = Last()
"""For `best_by`: keep the last iterate instead of the best one."""

GREY_LEVELS = 255


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack, one entry per example."""

    x_adv: Tensor
    """Perturbed images, inside the ball and the pixel range; the clean image if no iterate was kept."""
    found: Tensor
    """bool: an iterate was kept."""
    value: Tensor
    """`best_by` (or the loss) at the kept iterate."""
    feasible: Tensor
    """int64: iterates that satisfied the constraint."""
    fooled: Tensor
    """bool: the prediction was not y when the attack stopped; set only with `stop_when_fooled`."""
    random_steps: Tensor
    """int64: steps with a gradient of zero (or NaN) at every pixel, replaced by a keyed random sign; 0 with "stay"."""
    maps: MapCache[Tensor] = field(default_factory=MapCache)
    """Saliency maps [B, H, W] of the kept iterates that `best_by` computed, by attribution."""


@dataclass(frozen=True)
class PGD:
    """Ascend `loss` inside `ball` with `steps` steps of size `step_size`.

    `keep_prediction` keeps only iterates with the prediction of the clean image; the search continues through others.
    `best_by` selects the iterate to keep: None the one with the largest loss, a `Loss` the one with the largest value
    of that loss (strictly larger than for the clean image), `LAST` the last one. `stop_when_fooled` stops the search
    for an example as soon as its prediction is not y. `quantize` restricts perturbations to whole grey levels of 1/255.
    `stuck` says what an example does where its gradient is exactly zero at every pixel: "random" takes a keyed random
    sign as direction, "stay" does not move. `chunk` limits the images per forward pass. `restarts` repeats the search
    from other random starts and keeps the best result.

    >>> from holdfast.attacks.balls import Linf
    >>> from holdfast.losses import CrossEntropy
    >>> attack = PGD(CrossEntropy(), ball=Linf(0.1), steps=2, step_size=0.1)
    >>> x, y = torch.full((1, 1, 1, 2), 0.5), torch.tensor([0])
    >>> attack(lambda x: x.flatten(1), x, y, keys=torch.tensor([0])).flatten().tolist()
    [0.4000000059604645, 0.6000000238418579]
    """

    loss: Loss
    _: KW_ONLY
    ball: Ball
    steps: int
    step_size: float
    random_start: bool = False
    restarts: int = 1
    keep_prediction: bool = False
    best_by: Loss | Last | None = None
    stop_when_fooled: bool = False
    stuck: str = "random"
    quantize: bool = False
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_chunk(self.chunk)
        if self.steps < 0:
            raise expected("steps >= 0", got=self.steps)
        if not 0 <= self.step_size < float("inf"):
            raise expected("a step size >= 0", got=self.step_size)
        if self.restarts < 1 or (self.restarts > 1 and not (self.random_start or isinstance(self.loss, NoDirection))):
            fix = "without a random start every restart is the same search; pass random_start=True"
            raise expected("one restart, or several with a random start", got=self.restarts, fix=fix)
        if self.restarts > 1 and isinstance(self.best_by, Last):
            raise expected(
                "one restart with best_by=LAST",
                got=self.restarts,
                fix="the result of the last restart would always be kept",
            )
        if self.stuck not in ("random", "stay"):
            raise expected("stuck = 'random' or 'stay'", got=repr(self.stuck))
        if self.stuck == "stay" and isinstance(self.loss, NoDirection):
            raise expected("stuck = 'random' for random directions", got="'stay'", fix="the search would never move")
        if self.keep_prediction and self.stop_when_fooled:
            fix = "the first keeps the prediction, the second stops when it changes"
            raise expected("keep_prediction or stop_when_fooled, not both", got="both", fix=fix)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images shaped like x, detached, inside the ball and the pixel range."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self,
        model: Model,
        x: Tensor,
        y: Tensor,
        *,
        keys: Tensor,
        active: Tensor | None = None,
        maps: MapCache[Tensor] | None = None,
    ) -> AttackResult:
        """The perturbed images with details of the search; examples that are not `active` [B] stay unchanged.

        `maps` are saliency maps of x that the caller has already computed, by attribution.
        """
        check_batch(x, y, keys)
        if self.quantize:
            _check_grid(x)
        x, result = x.detach(), nothing_yet(x)
        rows = torch.arange(x.shape[0], device=x.device) if active is None else active.nonzero().flatten()
        if rows.numel() == 0:
            return result
        some = replace(self, loss=self.loss.for_rows(rows))
        with evaluating(model):
            if self.loss.second_order:
                require_second_order(model, x[:1])
            known = (maps or MapCache()).rows(rows)
            with frozen(model), second_order(self.loss.second_order):
                some._search(model, ActiveExamples(rows, x[rows], y[rows], keys[rows], None, {}, None, known), result)
        return result

    def _search(self, model: Model, examples: ActiveExamples, result: AttackResult) -> None:
        """Run all restarts and write the best iterates into `result`."""
        whole = self._with_clean_side(model, examples)
        if self.stop_when_fooled and whole.label is not None:  # already misclassified: done
            wrong = whole.label != whole.y
            result.fooled[whole.rows] = result.found[whole.rows] = wrong
            whole = whole.keep(~wrong)
        rows = whole.rows
        if rows.numel() == 0:
            return
        if whole.judge_clean is not None:  # an iterate must beat the clean image to be kept
            result.value[rows] = self._judge_clean(model, whole)
        for restart in range(self.restarts):
            active = whole if restart == 0 or not self.stop_when_fooled else whole.keep(~result.fooled[rows])
            if active.rows.numel():
                self._climb(model, active, restart, result)

    def _with_clean_side(self, model: Model, batch: ActiveExamples) -> ActiveExamples:
        """The batch with the clean predictions and the clean side of `best_by`."""
        label = None
        if self.keep_prediction or self.stop_when_fooled:
            clean = predictions(model, batch.x, self._images_per_pass(batch.x))
            check_labels(batch.y, batch.x.shape[0], clean.classes)
            label = clean.labels
        elif batch.x.device.type != "cpu" or bool((batch.y < 0).any()):
            _check_classes(model, batch)
        judge = self.best_by if isinstance(self.best_by, Loss) else None
        return replace(
            batch,
            label=label,
            judge_clean=judge.prepare(model, Pair(batch.x, batch.x, batch.y, batch.maps)) if judge else None,
        )

    def _climb(self, model: Model, batch: ActiveExamples, restart: int, result: AttackResult) -> None:
        """Run one search from one start and write the best iterates into `result`."""
        x_adv = batch.x
        if self.random_start:
            x_adv = self.ball.sample(rng.combine(batch.keys, restart), batch.x)
        with torch.no_grad():
            batch = replace(batch, clean=self.loss.prepare(model, Pair(batch.x, x_adv, batch.y, batch.maps)))
        for step in range(self.steps + 1):
            if batch.rows.numel() == 0:
                return
            last = step == self.steps
            seen = self._rounded(x_adv, batch.x)
            here = self._ascent(model, batch, seen, gradient_too=not last)
            gradient = None if here is None else here.gradient
            if self._is_candidate(step):
                alive = self._keep_best(model, batch, seen, here, result)
                if not bool(alive.all()):
                    batch, x_adv = batch.keep(alive), x_adv[alive]
                    gradient = None if gradient is None else gradient[alive]
            if gradient is not None:
                x_adv = self._step(batch, x_adv, gradient, (restart << 32) + step, result)

    def _is_candidate(self, step: int) -> bool:
        if isinstance(self.best_by, Last) and not (self.keep_prediction or self.stop_when_fooled):
            return step == self.steps
        # the clean image is a candidate only without `best_by`: it may have the largest loss
        return step > 0 or self.random_start or self.best_by is None

    def _keep_best(
        self, model: Model, batch: ActiveExamples, x_adv: Tensor, here: Seen | None, result: AttackResult
    ) -> Tensor:
        """Write the iterates to keep into `result`; returns which examples continue, bool [B]."""
        allowed = torch.ones_like(batch.y, dtype=torch.bool)
        fooled = torch.zeros_like(allowed)
        if batch.label is not None:
            known = None if here is None else here.labels
            labels = predictions(model, x_adv, self._images_per_pass(x_adv)).labels if known is None else known
            allowed = labels == batch.label if self.keep_prediction else allowed
            fooled = labels != batch.y if self.stop_when_fooled else fooled
        score, shown = self._score(model, batch, x_adv, here, allowed)
        better = allowed if score is None else allowed & (score > result.value[batch.rows])
        chosen = better | fooled
        rows = batch.rows[chosen]
        result.x_adv[rows] = x_adv[chosen]
        result.found[rows] = True
        result.feasible[batch.rows] += allowed
        result.fooled[batch.rows] |= fooled
        if score is not None:
            result.value[rows] = score[chosen].to(result.value.dtype)
        for attribution, judged in shown.items():
            kept = result.maps.setdefault(attribution, judged.new_zeros(result.value.shape[0], *judged.shape[1:]))
            kept[rows] = judged[chosen[allowed]]
        return ~fooled

    def _score(
        self, model: Model, batch: ActiveExamples, x_adv: Tensor, here: Seen | None, allowed: Tensor
    ) -> tuple[Tensor | None, MapCache[Tensor]]:
        """The values [B] by which iterates are compared, and the maps of the allowed iterates computed for them."""
        if batch.judge_clean is None:
            return None if isinstance(self.best_by, Last) or here is None else here.value, MapCache()
        # score only the allowed iterates, since a map costs as much as the rest of a step
        score = torch.full(batch.y.shape, -torch.inf, dtype=torch.float64, device=x_adv.device)
        if not bool(allowed.any()):
            return score, MapCache()
        score[allowed], shown = self._judge(model, batch.keep(allowed), x_adv[allowed])
        return score, shown

    def _judge_clean(self, model: Model, batch: ActiveExamples) -> Tensor:
        assert isinstance(self.best_by, Loss)
        assert batch.judge_clean is not None
        known = self.best_by.unchanged(batch.judge_clean)
        return self._judge(model, batch, batch.x)[0] if known is None else known.double()

    @torch.no_grad()
    def _judge(self, model: Model, batch: ActiveExamples, x_adv: Tensor) -> tuple[Tensor, MapCache[Tensor]]:
        assert isinstance(self.best_by, Loss)
        assert batch.judge_clean is not None
        context = self.best_by.context(model, Pair(batch.x, x_adv, batch.y))
        return self.best_by.value(context, batch.judge_clean).double(), context.perturbed_maps

    def _step(
        self, batch: ActiveExamples, x_adv: Tensor, gradient: Tensor, number: int, result: AttackResult
    ) -> Tensor:
        largest = flatten(gradient).abs().amax(1)
        if not bool(((largest > 0) & largest.isfinite()).all()):
            gradient = gradient.nan_to_num(nan=0.0, posinf=1e30, neginf=-1e30)
            lost = (flatten(gradient) == 0).all(1)
            if self.stuck == "random" and bool(lost.any()):  # no direction to follow, so take a keyed random sign
                noise = rng.signs(rng.combine(batch.keys[lost], number), gradient[lost], stream=1)
                gradient = gradient.index_put((lost,), noise)
                result.random_steps[batch.rows] += lost
        return self.ball.project(torch.add(x_adv, self.ball.step(gradient), alpha=self.step_size), batch.x)

    def _rounded(self, x_adv: Tensor, x: Tensor) -> Tensor:
        """The image that the network receives: with `quantize`, rounded towards x to whole grey levels.

        Rounding towards x keeps the image in the ball. The search continues from the unrounded image; otherwise steps
        smaller than one level would never add up.
        """
        if not self.quantize:
            return x_adv
        levels = (x_adv - x) * GREY_LEVELS
        return ((x * GREY_LEVELS).round() + (levels + 1e-3 * levels.sign()).trunc()) / GREY_LEVELS

    def _ascent(self, model: Model, batch: ActiveExamples, x_adv: Tensor, *, gradient_too: bool) -> Seen | None:
        """The loss, its gradient and the labels; None if they are not needed."""
        if not gradient_too and self.best_by is not None:
            return None
        most = self._images_per_pass(x_adv)
        try:
            return look(self.loss, model, batch, x_adv, images_per_pass=most, gradient=gradient_too)
        except (IndexError, RuntimeError):  # a label that is too large raises one of them on a CPU
            _check_classes(model, batch)
            raise

    def _images_per_pass(self, x: Tensor) -> int:
        return self.chunk or images_per_pass(x)


def _check_classes(model: Model, batch: ActiveExamples) -> None:
    """Check the labels; one image is enough to determine the number of classes."""
    check_labels(batch.y, batch.x.shape[0], predictions(model, batch.x[:1], 1).classes)


def nothing_yet(x: Tensor) -> AttackResult:
    """The result of an attack on x before its first iterate."""
    no, none = x.new_zeros(x.shape[0], dtype=torch.bool), x.new_zeros(x.shape[0], dtype=torch.int64)
    return AttackResult(
        x_adv=x.clone(),
        found=no.clone(),
        value=x.new_full((x.shape[0],), -torch.inf, dtype=torch.float64),
        feasible=none.clone(),
        fooled=no.clone(),
        random_steps=none.clone(),
    )


def _check_grid(x: Tensor) -> None:
    off = (x * GREY_LEVELS - (x * GREY_LEVELS).round()).abs().amax() if x.numel() else 0.0
    if off > 1e-2:
        fix = "quantize is for 8-bit images; round the pixels first or switch it off"
        raise expected("pixels that are whole multiples of 1/255", got="values in between", fix=fix)
