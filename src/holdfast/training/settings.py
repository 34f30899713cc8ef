"""What one run of the trainer was asked for, and what came out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import expected
from holdfast.training.protocols import Schedule, Validate


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How `fit` trains, what it writes, and when.

    `schedule` sets the learning rate, which else stays the optimiser's own. The attack budget grows from 0 over the
    share `warm_up` of the steps. A loss `explosion` times its median, or not finite, stops the run before the weights
    change.

    With a `run_dir` the run is logged to `log.jsonl` and saved as checkpoints: every `checkpoint_every` steps, after
    `checkpoint_seconds` without one, at the end, and on Ctrl-C or SIGTERM, which raise `Interrupted`. `resume=True`
    goes on from the last of them, or from the start when there is none, and ends bit for bit where an uninterrupted
    run would (on a CPU). `validate(model)` is called every `validate_every` steps; the weights with the largest value
    called `keep_best_by`, or the smallest with a minus before the name, are kept besides the last. The weights to use
    end up in `run_dir/weights.safetensors`, with `half_weights` as 16-bit numbers.
    """

    steps: int
    schedule: Schedule | None = None
    warm_up: float = 0.0
    seed: int = 0
    max_grad_norm: float | None = None
    explosion: float = 100.0
    amp: bool = False
    run_dir: Path | str | None = None
    resume: bool = False
    resume_command: str = ""
    checkpoint_every: int | None = None
    checkpoint_seconds: float | None = 600.0
    log_every: int = 50
    validate: Validate | None = None
    validate_every: int | None = None
    keep_best_by: str | None = None
    progress: bool = True
    tensorboard: bool = False
    half_weights: bool = False

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
    def folder(self) -> Path | None:
        """The run directory as a path."""
        return None if self.run_dir is None else Path(self.run_dir)

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
