"""The training loop."""

from pathlib import Path

import torch

from holdfast.rng import make_keys
from holdfast.training.optimizers import set_lr
from holdfast.training.protocols import Batches, Objective, Schedule, Validate
from holdfast.training.schedules import budget_at
from holdfast.training.session import Session, session
from holdfast.training.settings import FitResult, Settings


def fit(
    objective: Objective,
    loader: Batches,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    schedule: Schedule | None = None,
    warm_up: float = 0.0,
    seed: int = 0,
    max_grad_norm: float | None = None,
    explosion: float = 100.0,
    amp: bool = False,
    run_dir: Path | str | None = None,
    resume: bool = False,
    resume_command: str = "",
    checkpoint_every: int | None = None,
    checkpoint_seconds: float | None = 600.0,
    log_every: int = 50,
    validate: Validate | None = None,
    validate_every: int | None = None,
    keep_best_by: str | None = None,
    progress: bool = True,
    tensorboard: bool = False,
    half_weights: bool = False,
) -> FitResult:
    """Descend the objective for `steps` steps in all, on one process or, under `torchrun`, on many.

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
    settings = Settings(
        steps=steps,
        schedule=schedule,
        warm_up=warm_up,
        seed=seed,
        max_grad_norm=max_grad_norm,
        explosion=explosion,
        amp=amp,
        run_dir=None if run_dir is None else Path(run_dir),
        resume=resume,
        resume_command=resume_command,
        checkpoint_every=checkpoint_every,
        checkpoint_seconds=checkpoint_seconds,
        log_every=log_every,
        validate=validate,
        validate_every=validate_every,
        keep_best_by=keep_best_by,
        progress=progress,
        tensorboard=tensorboard,
        half_weights=half_weights,
    )
    with session(objective, loader, optimizer, settings) as run:
        return _train(run)


def _train(run: Session) -> FitResult:
    """The loop: batch, pace, forward, backward, check, update, record; each step depends on its number alone."""
    loader, optimizer, settings = run.loader, run.optimizer, run.settings
    lr = float(optimizer.param_groups[0]["lr"])
    for step in range(run.step, settings.steps):
        x, y, ids, share = run.processes.take(*loader.batch(step))
        keys = make_keys(settings.seed, ids, stream=step // len(loader))

        run.objective.budget = budget = budget_at(step, settings.warm_up_steps)
        if settings.schedule is not None:
            set_lr(optimizer, lr := settings.schedule(step))

        output = run.engine.forward(step, x, y, keys)
        run.look_at_clean(output, x, y)  # only where the step is logged
        gradient_norm = run.engine.backward(output, share)
        run.check(output, share, gradient_norm)  # raises before the weights change
        run.engine.update(gradient_norm)

        run.record(output, share, lr=lr, budget=budget)
        run.finish_step()
    return run.finish()
