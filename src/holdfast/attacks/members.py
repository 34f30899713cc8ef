"""The members of the strongest attack. Each proposes images; `Worst` judges them by the network's own map.

A gradient member is data: a loss, the widths of the exact-value surrogate, a start and a step size. A gradient-free
member is a function that proposes images. It needs no derivative, so a network cannot mask itself from it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import rng
from holdfast.attacks.balls import Linf
from holdfast.attacks.path_memory import PathMemory
from holdfast.attacks.problem import Problem, margins
from holdfast.attribution.base import GradientMap
from holdfast.attribution.saliency import saliency_map
from holdfast.engine.cpu_kernels import fast_kernels_for
from holdfast.engine.modes import frozen
from holdfast.engine.ops import flatten, per_example
from holdfast.engine.parallel import map_chunks
from holdfast.engine.passes import add_passes
from holdfast.engine.second_order import second_order
from holdfast.losses.base import Clean, select
from holdfast.losses.soft_ranks import AnnealedLoss
from holdfast.models.exact_value import exact_value_surrogate

FIRST_MOMENT, SECOND_MOMENT = 0.8, 0.99
"""Decay rates of Adam. Both are faster than usual, since a search has tens of steps."""

SAFE_MARGIN = 0.1
"""Below this share of the clean margin, a search also ascends the margin, so that it keeps the label."""

MARGIN_EVERY = 3
"""Steps between two looks at the margin. What a look finds also holds for the steps until the next one."""

MARGIN_COST = 0.5
"""Passes per step to keep the label: every third step the logits and, where the margin is small, its gradient."""

FIRST_OFFER = 0.6
"""The share of a search after which its iterates are judged."""


class Adam:
    """The direction of Adam (Kingma and Ba 2015) for gradients shaped like `like`, without a step size."""

    def __init__(self, like: Tensor) -> None:
        self.mean, self.square, self.steps = torch.zeros_like(like), torch.zeros_like(like), 0

    def direction(self, gradient: Tensor) -> Tensor:
        """The mean of the gradients so far, divided by the root of the mean of their squares; both unbiased."""
        self.steps += 1
        self.mean = FIRST_MOMENT * self.mean + (1 - FIRST_MOMENT) * gradient
        self.square = SECOND_MOMENT * self.square + (1 - SECOND_MOMENT) * gradient.square()
        mean = self.mean / (1 - FIRST_MOMENT**self.steps)
        return mean / ((self.square / (1 - SECOND_MOMENT**self.steps)).sqrt() + 1e-8)


@dataclass(frozen=True, kw_only=True)
class Ascent:
    """Ascends `loss` on the exact-value surrogate with Adam and a cosine step size.

    `metric` is the headline metric that the loss stands for. The widths of the surrogate shrink geometrically from
    `widths[0]` to `widths[1]`. `rate` is the step size in units of eps. `start` is "random" or "contrast". Each step
    takes `points` points of maps that have several; the loss is that of the mean map of the last `memory` steps.
    """

    name: str
    metric: str
    loss: AnnealedLoss
    widths: tuple[float, float]
    rate: float = 0.3
    start: str = "random"
    points: int = 1
    memory: int = 1

    def step_cost(self, points: int) -> float:
        """Passes of one step on a map with `points` points: gradients that are differentiated again, and the margin."""
        return 4 * min(self.points, points) + MARGIN_COST

    def most_passes(self, steps: int, points: int) -> int:
        """Passes of a search of `steps` steps if every look at the margin finds it small."""
        return 4 * min(self.points, points) * steps + 3 * math.ceil(steps / MARGIN_EVERY)

    def images(
        self,
        problem: Problem,
        start: Tensor,
        steps: int,
        offers: int,
        random_steps: Tensor,
        *,
        first: float = 0.0,
        number: int = 0,
    ) -> Iterator[Tensor]:
        """`offers` images from the later part of a search of `steps` steps, the last iterate among them.

        The search starts at progress `first`, with narrower widths and smaller steps. `number` selects the points at
        which sampled maps start. Steps without a gradient are counted in `random_steps` [B].
        """
        clean = self.prepare(problem)
        adam, due = Adam(start), _due(steps, offers)
        memory = PathMemory(self.memory if problem.points > self.points else 1)
        x_adv, eps = start, problem.ball.eps
        to_label = torch.zeros_like(start)
        for step in range(steps):
            progress = first + (1 - first) * step / max(1, steps - 1)
            gradient = self._gradient(problem, x_adv, clean["loss"], progress, number + step, memory)
            lost = (flatten(gradient) == 0).all(1)
            random_steps += lost
            if step % MARGIN_EVERY == 0:
                to_label = _towards_label(problem, x_adv, clean["safe"])
            gradient = gradient + to_label
            direction = _or_noise(problem, adam.direction(gradient), number + step)
            if not isinstance(problem.ball, Linf):
                direction = problem.ball.step(direction)
            cosine = 0.5 * (1 + math.cos(math.pi * (first + (1 - first) * step / steps)))
            x_adv = problem.ball.project(x_adv + self.rate * cosine * eps * direction, problem.x)
            if step + 1 in due:
                yield x_adv

    def prepare(self, problem: Problem) -> Clean:
        """What a search computes once: the clean side of the loss, and the margins [B] below which a label is close."""
        safe = SAFE_MARGIN * problem.margins_of_clean_images().clamp_min(1e-12)
        return {"loss": self.loss.remember(problem.clean_maps), "safe": safe}

    def gradient(self, problem: Problem, x_adv: Tensor, clean: Clean, progress: float, step: int) -> Tensor:
        """The direction of one step at `progress`: up the loss and, where the margin is small, up the margin."""
        up = self._gradient(problem, x_adv, clean["loss"], progress, step, PathMemory(1))
        return up + _towards_label(problem, x_adv, clean["safe"])

    def _gradient(
        self, problem: Problem, x_adv: Tensor, clean: Clean, progress: float, step: int, memory: PathMemory
    ) -> Tensor:
        """The gradient of the loss in the image, divided by its mean absolute value."""
        loss = self.loss.at(progress, step)
        width = self.widths[0] * (self.widths[1] / self.widths[0]) ** progress
        searched = problem.searched
        if isinstance(searched, GradientMap):
            searched = searched.sampled(step, min(self.points, problem.points))

        def of_rows(part: slice) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                there = x_adv[part].detach().requires_grad_()
                with exact_value_surrogate(width):
                    found = searched(problem.model, there, problem.y[part], create_graph=True)
                shown = saliency_map(memory.complete(found, part), straight_through=True)
                (gradient,) = torch.autograd.grad(loss.distance(shown, select(clean, part)).sum(), there)
            return gradient, found.detach()

        most = max(1, problem.images_per_pass // max(1, int(getattr(searched, "points", 1))))
        with frozen(problem.model), second_order(True):
            gradients, maps = zip(*map_chunks(problem.model, x_adv, len(problem), most, of_rows), strict=True)
        memory.add(torch.cat(maps))
        return _unit(torch.cat(gradients).nan_to_num(nan=0.0, posinf=1e30, neginf=-1e30))


def _due(steps: int, offers: int) -> set[int]:
    """The steps after which an image is offered: evenly from `FIRST_OFFER` on, and the last."""
    first = FIRST_OFFER * steps
    return {round(first + (steps - first) * (i + 1) / offers) for i in range(offers)} | {steps}


def _unit(gradient: Tensor) -> Tensor:
    size = flatten(gradient).abs().mean(1).clamp_min(1e-30)
    return gradient / per_example(size, gradient)


def _or_noise(problem: Problem, direction: Tensor, step: int) -> Tensor:
    """A direction of exactly zero, because no step had a gradient so far, becomes keyed random signs."""
    lost = (flatten(direction) == 0).all(1)
    if not bool(lost.any()):
        return direction
    noise = rng.signs(rng.combine(problem.keys[lost], step), direction[lost], stream=1)
    return direction.index_put((lost,), noise)


def _towards_label(problem: Problem, x_adv: Tensor, safe: Tensor) -> Tensor:
    """The gradient of the margin where it is below `safe` [B], growing as the margin falls; zero elsewhere."""
    pressure = (1 - margins(problem.logits(x_adv), problem.y) / safe).clamp(0, 2)
    close = pressure > 0
    push = torch.zeros_like(x_adv)
    if bool(close.any()):
        there, y = x_adv[close], problem.y[close]
        add_passes(there.shape[0], 2)

        def of_rows(part: slice) -> Tensor:
            with torch.enable_grad():
                image = there[part].detach().requires_grad_()
                with fast_kernels_for(problem.model, image, weights=False):
                    margin = margins(problem.model(image), y[part])
                (gradient,) = torch.autograd.grad(margin.sum(), image)
            return gradient

        with frozen(problem.model):
            parts = map_chunks(problem.model, there, there.shape[0], problem.images_per_pass, of_rows)
        push[close] = _unit(torch.cat(parts)) * per_example(pressure[close], there)
    return push


def contrast(problem: Problem, start: Tensor, number: int, queries: int) -> Tensor:
    """The clean image with every pixel moved by eps: up where the clean map is low and down where it is high.

    "Low" is at most the median of the map. Raising pixels of low attribution gives them some, and on black backgrounds
    breaks the ties between them.
    """
    return problem.ball.project(problem.x + _contrast(problem), problem.x)


def reverse_contrast(problem: Problem, start: Tensor, number: int, queries: int) -> Tensor:
    """The clean image with every pixel moved by eps against `contrast`."""
    return problem.ball.project(problem.x - _contrast(problem), problem.x)


def _contrast(problem: Problem) -> Tensor:
    flat = flatten(problem.clean_maps)
    low = (flat <= flat.median(1, keepdim=True).values).reshape(-1, 1, *problem.x.shape[2:])
    return torch.where(low, 1.0, -1.0).to(problem.x) * problem.ball.eps


def squares(problem: Problem, start: Tensor, number: int, queries: int) -> Tensor:
    """One query of a random search (after Andriushchenko et al. 2020): a random square set to the edge of the ball.

    The side of the square shrinks over `queries`; its place, colour and sign are keyed.
    """
    _, channels, height, width = start.shape
    keys = rng.combine(problem.keys, 1_000_003 + number)
    share = 0.3 * 0.5 ** (4 * number / max(1, queries))
    side = max(1, round(math.sqrt(share * height * width)))
    place = rng.uniform(keys, start.new_empty(len(problem), 2), stream=3)
    top = (place[:, :1] * max(1, height - side + 1)).floor()
    left = (place[:, 1:] * max(1, width - side + 1)).floor()
    rows = torch.arange(height, device=start.device)[None]
    columns = torch.arange(width, device=start.device)[None]
    inside = ((rows >= top) & (rows < top + side))[:, :, None] & ((columns >= left) & (columns < left + side))[:, None]
    sign = rng.signs(keys, start.new_empty(len(problem), channels, 1, 1), stream=4)
    moved = problem.x + problem.ball.eps * sign
    return problem.ball.project(torch.where(inside[:, None], moved, start), problem.x)


@dataclass(frozen=True, kw_only=True)
class GradientFree:
    """Proposes images without a derivative: `propose(problem, start, number, queries)` returns images like `start`.

    By default it is asked once, before all searches. With `every_round` it is asked `queries` times at the end of every
    round; `start` is then the worst image found so far, for each headline metric in turn.
    """

    name: str
    propose: Callable[[Problem, Tensor, int, int], Tensor]
    queries: int = 1
    every_round: bool = False


GRADIENT_FREE = (
    GradientFree(name="contrast", propose=contrast),
    GradientFree(name="reverse contrast", propose=reverse_contrast),
    GradientFree(name="random search", propose=squares, queries=2, every_round=True),
)
"""The gradient-free members of the strongest attack; to add one, add a line."""
