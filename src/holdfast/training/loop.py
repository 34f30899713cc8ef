"""The training loop."""

from collections.abc import Iterable
from typing import Any

import torch

from holdfast.errors import expected
from holdfast.rng import make_keys
from holdfast.training.batches import as_batches
from holdfast.training.optimizers import set_lr
from holdfast.training.protocols import Batches, TrainableObjective
from holdfast.training.schedules import budget_at
from holdfast.training.session import Session, session
from holdfast.training.settings import FitResult, FitSettings


def fit(
    objective: TrainableObjective,
    loader: Batches | Iterable[Any],
    optimizer: torch.optim.Optimizer,
    settings: FitSettings | None = None,
    **options: Any,
) -> FitResult:
    """Minimise the objective for `steps` steps in total, on one process or, under `torchrun`, on several.

    The options are documented in `FitSettings`; pass them as keyword arguments or as `settings`. `loader` is a
    `holdfast.data.Loader` or a `torch.utils.data.DataLoader` of (x, y) or (x, y, id).

    >>> import holdfast as hf
    >>> model = hf.Classifier(hf.models.build("digits-cnn", seed=0))
    >>> loader = hf.data.Loader(hf.data.load("digits"), batch_size=50)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    >>> hf.fit(hf.recipes.natural(model), loader, optimizer, steps=2, progress=False).step
    2
    """
    if settings is not None and options:
        raise expected("settings or options of fit, not both", got=f"settings and {', '.join(options)}")
    with session(objective, as_batches(loader), optimizer, settings or FitSettings(**options)) as run:
        return _train(run)


def _train(run: Session) -> FitResult:
    """The loop: batch, schedules, forward, backward, check, update, record. A step depends only on its number."""
    loader, optimizer, settings = run.loader, run.optimizer, run.settings
    lr = float(optimizer.param_groups[0]["lr"])
    for step in range(run.step, settings.steps):
        x, y, ids, share = run.processes.take(*loader.batch(step))
        keys = make_keys(settings.seed, ids, stream=step // len(loader))

        run.objective.budget = budget = budget_at(step, settings.warm_up_steps)
        if settings.schedule is not None:
            set_lr(optimizer, lr := settings.schedule(step))

        output = run.stepper.forward(step, x, y, keys)
        run.look_at_clean(output, x, y)  # only if the step is logged
        gradient_norm = run.stepper.backward(output, share)
        run.check(output, share, gradient_norm)  # raises before the weights change
        run.stepper.update(gradient_norm)

        run.record(output, share, lr=lr, budget=budget)
        run.finish_step()
    return run.finish()
