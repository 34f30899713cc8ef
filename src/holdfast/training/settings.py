"""What one run of the trainer was asked for, and what came out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import expected
from holdfast.training.protocols import Schedule, Validate


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of `fit`, where they are explained and have their defaults."""

    steps: int
    schedule: Schedule | None
    warm_up: float
    seed: int
    max_grad_norm: float | None
    explosion: float
    amp: bool
    run_dir: Path | None
    resume: bool
    resume_command: str
    checkpoint_every: int | None
    checkpoint_seconds: float | None
    log_every: int
    validate: Validate | None
    validate_every: int | None
    keep_best_by: str | None
    progress: bool
    half_weights: bool
    tensorboard: bool

    def __post_init__(self) -> None:
        for name in ("steps", "checkpoint_every", "log_every", "validate_every", "max_grad_norm", "checkpoint_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise expected(f"{name} > 0", got=value)
        if not 0 <= self.warm_up <= 1:
            raise expected("warm_up, a share of the steps, in [0, 1]", got=self.warm_up)
        if (self.validate is None) != (self.validate_every is None):
            raise expected("validate and validate_every together", got="only one of them")
        wishes = {"resume": self.resume, "keep_best_by": self.keep_best_by, "tensorboard": self.tensorboard}
        wish = next((name for name, value in wishes.items() if value), None)
        if self.run_dir is None and wish:
            raise expected(f"a run_dir with {wish}", got=None, fix="name a directory for the files of the run")

    @property
    def warm_up_steps(self) -> int:
        """Steps over which the attack budget grows from 0 to 1."""
        return round(self.warm_up * self.steps)

    def due(self, every: int | None, step: int) -> bool:
        """Whether something that happens `every` so many steps, and at the end, happens after `step` steps."""
        return every is not None and (step % every == 0 or step == self.steps)


@dataclass(frozen=True)
class Best:
    """The best value seen, of what, and after how many steps."""

    step: int
    name: str
    value: float


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """A finished run: steps done, seconds of training over all its sittings, the last parts, the best, the cost."""

    step: int
    seconds: float
    parts: Mapping[str, float | None]
    best: Best | None
    example_passes: int


def is_better(name: str, value: float, best: Best | None) -> bool:
    """Larger is better; with a minus before the name, smaller is. What is not finite never is."""
    sign = -1.0 if name.startswith("-") else 1.0
    return math.isfinite(value) and (best is None or sign * value > sign * best.value)


def pick(name: str, values: Mapping[str, float]) -> float:
    """The value called `name`, whatever its sign, or an error that lists what there is."""
    key = name.removeprefix("-")
    if key not in values:
        raise expected(f"keep_best_by to name one of {', '.join(sorted(values))}", got=repr(key))
    return float(values[key])
