"""What an evaluation costs: passes and seconds so far, an estimate of the rest, and settings that fit a time limit."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.engine.passes import PassCounter

Clock = Callable[[], float]


EARLY, LONG = 20.0, 60.0
"""Seconds of passes after which a first estimate is said, if then at least so many seconds are left."""


@dataclass
class CostEstimate:
    """Watches the progress of an evaluation and describes its cost after the first batch.

    Pass `progress` to `evaluate` as `on_progress`. `attacks` are the names of the attacks in their order; a batch is
    done when the last of them is. If several processes attack a batch each, `batch_size` is the size of the batch whose
    passes `counter` counts.

    A batch of large images takes many minutes. So if the budget is known, `images` with `budget` example-passes each,
    of which this process takes a part `share`, long work is estimated from its first `EARLY` seconds.
    """

    attacks: tuple[str, ...]
    counter: PassCounter
    say: Callable[[str], None]
    clock: Clock = time.monotonic
    batch_size: int | None = None
    images: int = 0
    budget: int | None = None
    share: float = 1.0
    _first: float | None = field(default=None, init=False)
    _started: float | None = field(default=None, init=False)
    _passes: int = field(default=0, init=False)
    _told: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.budget is not None:
            self.counter.watch = self.early

    def early(self) -> None:
        """Once, `EARLY` seconds after the first passes, say how long the whole budget takes."""
        now = self.clock()
        if self._first is None:
            self._first = now
        if self.budget is None or now - self._first < EARLY:
            return
        self.counter.watch = None
        rate = max(1, self.counter.passes) / (now - self._first)
        left = (self.images * self.budget * self.share - self.counter.passes) / rate
        if left >= LONG and not self._told:
            speed = f"{rate / self.share:,.0f} example-passes per second"
            self.say(f"about {left / 60:.1f} minutes left: {speed}, {self.images} images, {self.budget:,} passes each")

    def progress(self, what: str, done: int, total: int) -> None:
        """Record progress; after the first batch, say what it cost and how long the rest takes."""
        if what not in self.attacks:  # accuracy comes first: the attacks start when it is done
            self._started, self._passes = self.clock(), self.counter.passes
        elif not self._told and what == self.attacks[-1] and self._started is not None:
            self._told = True
            seconds, passes = self.clock() - self._started, self.counter.passes - self._passes
            if self.batch_size is not None:
                passes = round(passes * done / min(done, self.batch_size))
            self.say(describe_cost(done, total, seconds, passes))


def describe_cost(done: int, total: int, seconds: float, passes: int) -> str:
    """One sentence about the cost of `done` of `total` images.

    >>> describe_cost(16, 64, 30.0, 32_000)
    '16 of 64 images took 30 s: 2,000 example-passes per image, 1,067 per second; about 1.5 minutes left'
    >>> describe_cost(64, 64, 120.0, 128_000)
    '64 of 64 images took 120 s: 2,000 example-passes per image, 1,067 per second'
    """
    left = seconds / max(1, done) * (total - done)
    rest = f"; about {left / 60:.1f} minutes left" if left >= 60 else f"; about {left:.0f} s left"
    each, rate = passes / max(1, done), passes / max(seconds, 1e-9)
    spent = f"{seconds:.0f} s: {each:,.0f} example-passes per image, {rate:,.0f} per second"
    return f"{done} of {total} images took {spent}{rest if done < total else ''}"


def fit_images_and_steps(
    seconds_per_image_step: float, steps: int, images: int, seconds: float, *, enough: int = 20, fewest_steps: int = 5
) -> tuple[int, int]:
    """Number of images and steps that fit into `seconds`, given the cost of one step on one image.

    Steps are reduced, down to `fewest_steps`, only if otherwise fewer than `enough` images would fit. At least one
    image is returned.

    >>> fit_images_and_steps(0.1, 50, 64, 600.0)
    (64, 50)
    >>> fit_images_and_steps(0.1, 50, 64, 100.0)
    (20, 50)
    >>> fit_images_and_steps(0.1, 50, 64, 50.0)
    (20, 25)
    """
    enough = min(enough, images)
    affordable = seconds / max(seconds_per_image_step, 1e-12)  # steps on single images
    if affordable < enough * steps:
        steps = max(fewest_steps, min(steps, int(affordable // enough)))
    return max(1, min(images, int(affordable // steps))), steps
