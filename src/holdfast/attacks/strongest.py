"""The strongest attack on explanations: several members share a budget of example-passes per image.

1. The gradient-free members that need one query are judged: the contrast images.
2. Pilot: every gradient member searches for a few steps.
3. Finish: for each headline metric, the member that leads on an image goes on from the worst image found so far.
4. The other gradient-free members, a random search on the true metric, try to go below what the gradients found.

Only the images that are found are scored with the full map. With a larger budget the whole schedule is repeated from
other random starts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball
from holdfast.attacks.base import (
    CleanSide,
    ExplanationResult,
    Outcome,
    Scores,
    check_eval_k,
    clean_side,
    compare,
    stand_in_notes,
    worst_images,
)
from holdfast.attacks.members import GRADIENT_FREE, Ascent, GradientFree, contrast
from holdfast.attacks.problem import Problem
from holdfast.attacks.worst import HEADLINES, Worst
from holdfast.attribution.saliency import map_of
from holdfast.engine.checks import check_batch
from holdfast.engine.modes import evaluating, frozen
from holdfast.errors import expected
from holdfast.metrics.maps import has_ranking
from holdfast.metrics.registry import METRICS
from holdfast.models.double_backward import require_second_order
from holdfast.types import Attribution, Model

EDITION = 4
"""Number of the published attack (docs/attack.md). It grows with every change of strength; results of different
editions are not comparable, and a folder of rows refuses to go on with another edition."""

ROUND = 5000
"""Passes per image that one run of the schedule uses at most; a larger budget is split into several runs."""

PILOT = 0.25
"""Share of the passes of a round that the pilot uses."""

PILOT_OFFERS, FINISH_OFFERS = 1, 3
"""How many iterates of a search are judged."""

FEWEST_STEPS = 2
"""Steps that every search takes at least."""

CONTINUE_AT = 0.3
"""Progress at which the finish goes on: narrower widths and smaller steps than at a fresh start."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps of every member in the pilot and, if it leads, in the finish, and the number of rounds."""

    pilot: tuple[int, ...]
    finish: tuple[int, ...]
    rounds: int

    @classmethod
    def for_budget(
        cls,
        passes: int,
        members: Sequence[Ascent],
        *,
        points: int,
        judge_points: int,
        gradient_free: Sequence[GradientFree] = GRADIENT_FREE,
    ) -> "Schedule":
        """The schedule that fits into `passes` per image, for a map with `points` points judged with `judge_points`.

        Below `fewest_passes` it is the shortest schedule, which takes more.
        """
        rounds = max(1, passes // ROUND)
        judged = _judged(members, gradient_free, judge_points, rounds)
        left = max(0.0, (passes - _scored(points, judge_points)) / rounds - judged)
        each = PILOT * left / max(1, len(members)), (1 - PILOT) * left / len(HEADLINES)
        pilot, finish = (tuple(max(FEWEST_STEPS, int(share / m.step_cost(points))) for m in members) for share in each)
        return cls(pilot=pilot, finish=finish, rounds=rounds)


def fewest_passes(
    members: Sequence[Ascent],
    *,
    points: int,
    judge_points: int,
    gradient_free: Sequence[GradientFree] = GRADIENT_FREE,
) -> int:
    """Passes per image of the shortest schedule, at most: the search of every member has its fewest steps."""
    searches = [member.most_passes(FEWEST_STEPS, points) for member in members]
    searched = sum(searches) + len(HEADLINES) * max(searches, default=0)
    return _scored(points, judge_points) + math.ceil(_judged(members, gradient_free, judge_points, 1)) + searched


def _scored(points: int, judge_points: int) -> int:
    """Passes for the full maps of the clean image and of those that are found, and for the clean map that judges."""
    return 2 * points * (1 + len(HEADLINES)) + 2 * judge_points + 1


def _judged(members: Sequence[Ascent], gradient_free: Sequence[GradientFree], judge_points: int, rounds: int) -> float:
    """Passes per round for the judgement of all candidates."""
    once, again = (sum(m.queries for m in gradient_free if m.every_round is repeated) for repeated in (False, True))
    offers = once / rounds + len(members) * PILOT_OFFERS + len(HEADLINES) * FINISH_OFFERS + again
    return offers * (2 * judge_points + 1)


@dataclass(frozen=True)
class StrongestResult(ExplanationResult):
    """The worst image per headline metric. `x_adv` and `scores` are those of the first metric.

    `images` holds the perturbed images by headline metric, `by_image` the scores of each of them, and `winners` the
    member that found it for each example.
    """

    images: Mapping[str, Tensor] = field(default_factory=dict)
    by_image: Mapping[str, Scores] = field(default_factory=dict)
    winners: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def worst(self) -> Scores:
        """The worst value of each metric over the images found."""
        found = {name: torch.stack([scores[name] for scores in self.by_image.values()]) for name in self.scores}
        return Scores({n: v.amax(0) if METRICS[n].is_distance else v.amin(0) for n, v in found.items()})

    @property
    def reported_scores(self) -> Scores:
        return self.worst

    def images_of(self, metric: str) -> Tensor:
        return worst_images(metric, [(self.images[name], scores) for name, scores in self.by_image.items()])

    @property
    def winner_names(self) -> list[str]:
        """For each example, the members that found the worst image of each headline metric."""
        together = zip(*self.winners.values(), strict=True)
        return [" + ".join(dict.fromkeys(name for name in names if name)) for names in together]


@dataclass(frozen=True, kw_only=True)
class StrongestAttack:
    """Attack the map `attribution` inside `ball` with all members, using at most about `passes` passes per image.

    `members` ascend gradients; those of `gradient_free` propose images. `eval_k` is the k of the top-k intersection.
    Candidates are judged by the map with `judge_points` points; the images that are found are scored with the full map.
    `searched` replaces the map in the search if it cannot be differentiated. `quantize` restricts perturbations to
    whole grey levels of 1/255; `chunk` limits the images per forward pass. `edition` is `EDITION` for the published
    attack, 0 for one with other members.
    """

    attribution: Attribution
    ball: Ball
    eval_k: int
    members: tuple[Ascent, ...]
    passes: int = 2000
    judge_points: int = 5
    searched: Attribution | None = None
    quantize: bool = False
    chunk: int | None = None
    gradient_free: tuple[GradientFree, ...] = GRADIENT_FREE
    edition: int = 0

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise expected("passes >= 1", got=self.passes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all members, the gradient-free ones last."""
        return (*(member.name for member in self.members), *(member.name for member in self.gradient_free))

    def without(self, name: str) -> "StrongestAttack":
        """The same attack with one member left out, whose passes the others get."""
        if name not in self.names:
            raise expected("a member of the attack", got=name, fix=f"choose one of {', '.join(self.names)}")
        members = tuple(member for member in self.members if member.name != name)
        free = tuple(member for member in self.gradient_free if member.name != name)
        return replace(self, members=members, gradient_free=free, edition=0)

    def schedule(self, points: int) -> Schedule:
        """The steps of the members, for a map that needs `points` points."""
        judge = min(points, self.judge_points)
        free = self.gradient_free
        return Schedule.for_budget(self.passes, self.members, points=points, judge_points=judge, gradient_free=free)

    def fewest_passes(self, model: Model, x: Tensor) -> int:
        """Passes per image that the attack on `model` takes even with a smaller budget `passes`, at most."""
        points = self._points(model, x)
        judge = min(points, self.judge_points)
        return fewest_passes(self.members, points=points, judge_points=judge, gradient_free=self.gradient_free)

    def __call__(self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor) -> Tensor:
        """Perturbed images shaped like x; the clean image where the attack failed or was not possible."""
        return self.run(model, x, y, keys=keys).x_adv

    def run(
        self, model: Model, x: Tensor, y: Tensor, *, keys: Tensor, clean: CleanSide | None = None
    ) -> StrongestResult:
        """The worst images with the outcome and the scores of every example."""
        check_batch(x, y, keys)
        check_eval_k(self.eval_k, x)
        x = x.detach()
        with evaluating(model):
            if x.shape[0]:
                require_second_order(model, x[:1])
            clean = clean or clean_side(model, x, y, self.attribution)
            active = clean.right & has_ranking(clean.maps)
            rows = active.nonzero().flatten()
            outcome = torch.full_like(y, Outcome.NAN_MAP)
            outcome[~clean.right] = Outcome.MISCLASSIFIED
            images = {metric: x.clone() for metric in HEADLINES}
            maps = {metric: clean.maps.clone() for metric in HEADLINES}
            winners = {metric: [""] * x.shape[0] for metric in HEADLINES}
            tried, without = torch.zeros_like(y), torch.zeros_like(y)
            if len(rows):
                problem = Problem(
                    model=model,
                    x=x[rows],
                    y=y[rows],
                    keys=keys[rows],
                    ball=self.ball,
                    attribution=self.attribution,
                    searched=self.searched or self.attribution,
                    clean_maps=clean.maps[rows],
                    points=self._points(model, x[rows]),
                    quantize=self.quantize,
                    chunk=self.chunk,
                )
                with frozen(model):
                    worst, tried[rows], without[rows] = self._search(problem)
                outcome[rows] = _outcomes(worst)
                for metric in HEADLINES:
                    images[metric][rows] = worst.images[metric]
                    maps[metric][rows] = self._full_maps(problem, worst, metric)
                    for row, name in zip(rows.tolist(), worst.names[metric], strict=True):
                        winners[metric][row] = name
        by_image = {m: compare(clean.maps, maps[m], self.eval_k, valid=active) for m in HEADLINES}
        first = HEADLINES[0]
        return StrongestResult(
            x_adv=images[first],
            outcome=outcome,
            scores=by_image[first],
            steps=tried,
            random_steps=without,
            notes=stand_in_notes(self.searched),
            images=images,
            by_image=by_image,
            winners=winners,
        )

    def _points(self, model: Model, x: Tensor) -> int:
        """The number of points that the map needs: one where integrated gradients take their shortcut."""
        needed: Callable[[Model, Tensor], int] | None = getattr(self.attribution, "points_needed", None)
        return int(getattr(self.attribution, "points", 1)) if needed is None else needed(model, x)

    def _search(self, problem: Problem) -> tuple[Worst, Tensor, Tensor]:
        """The worst images, and for each image the number of steps and of steps without a gradient."""
        plan = self.schedule(problem.points)
        problem = replace(problem, clean_margins=problem.margins_of_clean_images())  # once for all members
        worst = Worst(problem, self.eval_k, self.judge_points)
        effort = _Effort(torch.zeros_like(problem.y), torch.zeros_like(problem.y))
        self._propose(problem, worst, 0, every_round=False)
        for number in range(plan.rounds):
            reached = self._pilot(problem, worst, plan, effort, number)
            for metric in HEADLINES:
                self._finish(problem, worst, plan, effort, metric, reached, number)
            self._propose(problem, worst, number, every_round=True)
        return worst, effort.steps, effort.random_steps

    def _pilot(
        self, problem: Problem, worst: Worst, plan: Schedule, effort: "_Effort", number: int
    ) -> dict[str, Tensor]:
        """A short search of every member; returns the worst value that each reached on its metric."""
        reached: dict[str, Tensor] = {}
        for index, (member, steps) in enumerate(zip(self.members, plan.pilot, strict=True)):
            # members of the same round share their random start
            from_contrast = member.start == "contrast" and number == 0
            start = contrast(problem, problem.x, 0, 1) if from_contrast else problem.random_start(number)
            best = torch.ones(len(problem), dtype=torch.float64)
            points = 1000 * number + index
            for x_adv in member.images(problem, start, steps, PILOT_OFFERS, effort.random_steps, number=points):
                best = best.minimum(worst.offer(x_adv, member.name)[member.metric])
            effort.steps.add_(steps)
            reached[member.name] = best
        return reached

    def _finish(
        self,
        problem: Problem,
        worst: Worst,
        plan: Schedule,
        effort: "_Effort",
        metric: str,
        reached: Mapping[str, Tensor],
        number: int,
    ) -> None:
        """On each image, the leader for `metric` goes on from the worst image found so far."""
        members = [(m, steps) for m, steps in zip(self.members, plan.finish, strict=True) if m.metric == metric]
        if not members:
            return
        leader = torch.stack([reached[member.name] for member, _ in members]).argmin(0)
        for index, (member, steps) in enumerate(members):
            rows = (leader == index).nonzero().flatten()
            if not len(rows):
                continue
            some, start = problem.rows(rows), worst.images[metric][rows]
            lost = torch.zeros_like(some.y)
            for x_adv in member.images(
                some, start, steps, FINISH_OFFERS, lost, first=CONTINUE_AT, number=1000 * number + 500
            ):
                worst.offer(x_adv, member.name, rows)
            effort.steps[rows] += steps
            effort.random_steps[rows] += lost

    def _propose(self, problem: Problem, worst: Worst, number: int, *, every_round: bool) -> None:
        """The queries of the gradient-free members that are asked once, or of those asked in every round."""
        for member in self.gradient_free:
            for query in range(member.queries if member.every_round is every_round else 0):
                start = worst.images[HEADLINES[query % len(HEADLINES)]]
                x_adv = member.propose(problem, start, number * member.queries + query, member.queries)
                worst.offer(x_adv, member.name)

    def _full_maps(self, problem: Problem, worst: Worst, metric: str) -> Tensor:
        return map_of(problem.model, worst.images[metric], problem.y, self.attribution).detach()


@dataclass(frozen=True)
class _Effort:
    """Steps and steps without a gradient, int64 [B], counted in place."""

    steps: Tensor
    random_steps: Tensor


def _outcomes(worst: Worst) -> Tensor:
    found = torch.tensor([any(names) for names in zip(*worst.names.values(), strict=True)], device=worst.kept.device)
    failed = torch.where(worst.kept > 0, int(Outcome.UNMOVED), int(Outcome.LABEL_LOST))
    return torch.where(found, int(Outcome.ATTACKED), failed)
