"""The settings of a training run, and its result."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import expected
from holdfast.training.protocols import Schedule, Validate


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How `fit` trains, what it writes, and when.

    `schedule` sets the learning rate; without one, the optimiser's own rate is used. The attack budget grows from 0 to
    its full size over the fraction `warm_up` of the steps. A loss that is not finite, or more than `explosion` times
    its median, stops the run before the weights change.

    With a `run_dir`, the run is logged to `log.jsonl` and saved as checkpoints: every `checkpoint_every` steps, after
    `checkpoint_seconds` without one, at the end, and on Ctrl-C, SIGTERM or SIGUSR2, which raise `Interrupted`.
    `resume=True` continues from the last checkpoint, or starts from the beginning if there is none. On a CPU, the
    result of a resumed run equals that of an uninterrupted run bit for bit.

    `validate(model)` is called every `validate_every` steps. `keep_best_by` names a value; the weights with the largest
    value are kept besides the last ones (with a minus before the name: the smallest value). The final weights are
    written to `run_dir/weights.safetensors`, with `half_weights` as 16-bit numbers.

    The network is trained in training mode. With `keep_modes`, each of its layers keeps the mode it has. With
    `batch_norm="fixed"`, batch norm uses the statistics that it has and does not update them: those of perturbed images
    and of the path points of integrated gradients differ from those of clean images, on which the network is evaluated.
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
    keep_modes: bool = False
    batch_norm: str = "update"

    def __post_init__(self) -> None:
        for name in ("steps", "checkpoint_every", "log_every", "validate_every", "max_grad_norm", "checkpoint_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise expected(f"{name} > 0", got=value)
        if self.batch_norm not in ("update", "fixed"):
            raise expected("batch_norm 'update' or 'fixed'", got=repr(self.batch_norm))
        if not 0 <= self.warm_up <= 1:
            raise expected("warm_up in [0, 1], a fraction of the steps", got=self.warm_up)
        if (self.validate is None) != (self.validate_every is None):
            raise expected("validate and validate_every together", got="only one of them")
        wishes = {"resume": self.resume, "keep_best_by": self.keep_best_by, "tensorboard": self.tensorboard}
        wish = next((name for name, value in wishes.items() if value), None)
        if self.run_dir is None and wish:
            raise expected(f"a run_dir with {wish}", got=None, fix="pass a directory for the files of the run")

    @property
    def folder(self) -> Path | None:
        """The run directory as a path."""
        return None if self.run_dir is None else Path(self.run_dir)

    @property
    def warm_up_steps(self) -> int:
        """Steps over which the attack budget grows from 0 to 1."""
        return round(self.warm_up * self.steps)

    def due(self, every: int | None, step: int) -> bool:
        """Whether an action that runs every `every` steps and at the end is due after `step` steps."""
        return every is not None and (step % every == 0 or step == self.steps)


@dataclass(frozen=True)
class Best:
    """The best value so far, its name, and the number of steps after which it was reached."""

    step: int
    name: str
    value: float


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """A finished run: steps, seconds of training (including earlier, resumed parts), last loss parts, best, cost."""

    step: int
    seconds: float
    parts: Mapping[str, float | None]
    best: Best | None
    example_passes: int


def is_better(name: str, value: float, best: Best | None) -> bool:
    """Whether `value` is larger than the best (smaller, with a minus before the name). Never for non-finite values."""
    sign = -1.0 if name.startswith("-") else 1.0
    return math.isfinite(value) and (best is None or sign * value > sign * best.value)


def pick(name: str, values: Mapping[str, float]) -> float:
    """The value called `name`, without a leading minus; raises an error that lists the available names."""
    key = name.removeprefix("-")
    if key not in values:
        raise expected(f"keep_best_by to be one of {', '.join(sorted(values))}", got=repr(key))
    return float(values[key])
