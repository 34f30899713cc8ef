"""A training run around its steps: run directory, records, checkpoints, and the end of the run."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from holdfast.engine.modes import BATCH_NORM, evaluating
from holdfast.errors import InputError, expected
from holdfast.storage.lock import locked
from holdfast.training import state
from holdfast.training.checkpoint import Snapshot
from holdfast.training.checkpoint_store import CheckpointStore, Kind
from holdfast.training.distributed import check_slices, current
from holdfast.training.guards import LossGuard, diverged
from holdfast.training.logbook import Record, finite
from holdfast.training.outputs import Outputs
from holdfast.training.protocols import Batches, StepOutput, TrainableObjective, as_module
from holdfast.training.settings import Best, FitResult, FitSettings, is_better, pick
from holdfast.training.signals import Interrupted, StopRequest
from holdfast.training.step import Stepper


@contextmanager
def session(
    objective: TrainableObjective, loader: Batches, optimizer: torch.optim.Optimizer, settings: FitSettings
) -> Iterator["Session"]:
    """Open a new or resumed run. At the end of the block, files are closed and the caller's state is restored."""
    with ExitStack() as stack:
        run = Session(objective, loader, optimizer, settings)
        run.open(stack)
        yield run


class Session:
    """A run in progress after `step` steps, with all state that must survive a crash."""

    def __init__(
        self, objective: TrainableObjective, loader: Batches, optimizer: torch.optim.Optimizer, settings: FitSettings
    ) -> None:
        self.objective, self.loader, self.optimizer, self.settings = objective, loader, optimizer, settings
        self.module, self.processes = as_module(objective), current()
        self.store = CheckpointStore(settings.folder) if settings.folder else None
        self.guard = LossGuard(settings.explosion)
        self.step, self.saved_step = 0, -1
        self.parts: dict[str, float | None] = {}
        self._extra: dict[str, torch.Tensor] = {}
        self.best: Best | None = None
        self.began = self.saved_at = time.monotonic()
        self.stopping = self.save_now = False
        self.outputs: Outputs | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def open(self, stack: ExitStack) -> None:
        """Lock the run directory, restore the last checkpoint, and install the signal handlers."""
        check_slices(self.loader, self.processes)
        self.processes.leading(lambda: self._claim(stack))
        snapshot = self.store.load() if self.store and self.settings.resume else None
        self.stepper = Stepper(self.objective, self.optimizer, self.processes, self.settings)
        if snapshot is not None:
            self._restore(snapshot)
        self.processes.leading(lambda: self._begin(stack))
        stack.enter_context(self.stepper.own_randomness())
        modes = {layer: self._trains(layer) for layer in self.module.modules()}
        stack.enter_context(evaluating(self.module))  # restores the training modes at the end
        for layer, training in modes.items():
            layer.training = training
        stack.callback(setattr, self.objective, "budget", self.objective.budget)
        self.stop = stack.enter_context(StopRequest(say=self.processes.leads))
        if snapshot is None:
            self.save()

    def _trains(self, layer: nn.Module) -> bool:
        """Whether a layer is in training mode while the network is trained."""
        fixed = self.settings.batch_norm == "fixed" and isinstance(layer, BATCH_NORM)
        return not fixed and (layer.training or not self.settings.keep_modes)

    def check(self, output: StepOutput, share: float, gradient_norm: torch.Tensor) -> None:
        """Raise before the update if loss or gradient is invalid; collect stop and save requests of all processes."""
        limit, leads = self.settings.checkpoint_seconds, self.processes.leads
        late = limit is not None and leads and time.monotonic() - self.saved_at >= limit
        mine = float(output.total.detach()) * share if share else 0.0
        total, stopping, save_now = self.processes.sum(mine, bool(self.stop.asked), late)
        self.stopping, self.save_now = stopping > 0, save_now > 0
        norm = 0.0 if self.stepper.amp else float(gradient_norm)  # the scaler itself skips steps that overflow
        if complaint := self.guard.complaint(total / self.processes.world_size, norm):
            raise diverged(complaint, step=self.step + 1, parts=output.parts, last_good=self._last_good())

    def look_at_clean(self, output: StepOutput, x: torch.Tensor, y: torch.Tensor) -> None:
        """Measure the accuracy on the clean batch if the step will be logged and the objective did not measure it."""
        self._extra = {}
        if "accuracy_clean" in output.parts or not self._is_logged(self.step + 1):
            return
        model = self.objective.model
        with torch.no_grad(), evaluating(model):
            right = model(x).argmax(1) == y
        self._extra = {"accuracy_clean": right.to(output.total.dtype).mean()}

    def _is_logged(self, step: int) -> bool:
        return any(self.settings.due(every, step) for every in (self.settings.validate_every, self.settings.log_every))

    def record(self, output: StepOutput, share: float, *, lr: float, budget: float) -> None:
        """Count the step as done; log it, validate and keep the best when due."""
        self.step += 1
        if self.outputs:
            self.outputs.advance(self.step)
        if not self._is_logged(self.step):
            return
        validating = self.settings.due(self.settings.validate_every, self.step)
        parts = self._mean_parts(output, share)
        self.parts = finite(parts)
        validation = self._validate() if validating else {}
        if validating or self.settings.validate is None:
            self._keep_if_best({**parts, **validation})
        passes = self._example_passes()
        if self.outputs:
            line: Record = {"step": self.step, "seconds": round(self.seconds, 3), "lr": lr, "budget": budget}
            line |= {"parts": self.parts, "example_passes": passes}
            self.outputs.write(line | ({"validation": finite(validation)} if validating else {}))

    def finish_step(self) -> None:
        """Save a checkpoint when due, and end the run if a signal requested it."""
        if self.save_now or self.stopping or self.settings.due(self.settings.checkpoint_every, self.step):
            self.save()
        if self.stopping and self.step < self.settings.steps:
            raise self._interrupted()

    def finish(self) -> FitResult:
        """Write the last checkpoint and `weights.safetensors`, and return the result."""
        self.module.zero_grad(set_to_none=True)
        self.save()
        if self.store:
            store, half = self.store, self.settings.half_weights
            self.processes.leading(lambda: store.export(half=half))
        return FitResult(
            step=self.step,
            seconds=self.seconds,
            parts=self.parts,
            best=self.best,
            example_passes=self._example_passes(),
        )

    def save(self, kind: Kind = "step") -> None:
        """Write a checkpoint of the current step, unless it exists already."""
        store = self.store
        if store is None or (kind == "step" and self.saved_step == self.step):
            return
        notes = self._notes()
        self.processes.leading(lambda: self._write(store, kind, notes))
        if kind == "step":
            self.saved_step, self.saved_at = self.step, time.monotonic()

    def _claim(self, stack: ExitStack) -> None:
        """Lock the run directory; raises if it already holds a run that is not resumed."""
        if self.store is None:
            return
        stack.enter_context(locked(self.store.run_dir))
        self.store.clean()
        if self.store.found() and not self.settings.resume:
            got = f"{self.store.run_dir}, which holds a run"
            raise InputError(
                f"expected a new run directory, got {got}; resume it with resume=True or pass another directory."
            )

    def _begin(self, stack: ExitStack) -> None:
        """Open the outputs, and drop what a killed run wrote beyond this step."""
        if self.store:
            self.store.forget_after(self.step)
        self.outputs = Outputs(self.settings, step=self.step, stack=stack)

    def _restore(self, snapshot: Snapshot) -> None:
        notes = snapshot.notes
        if snapshot.step > self.settings.steps:
            fix = "steps is the total, including the steps before the resume"
            raise expected(f"steps >= {snapshot.step}, the steps already done", got=self.settings.steps, fix=fix)
        state.check_same(notes["same"], self._same())
        state.restore(snapshot, self.module, self.optimizer)
        self.stepper.scaler.load_state_dict(notes["scaler"])
        self.objective.example_passes = notes["example_passes"] if self.processes.leads else 0
        self.guard = LossGuard(self.settings.explosion, notes["recent"])
        self.step = self.saved_step = snapshot.step
        self.parts, self.best = notes["parts"], Best(*notes["best"]) if notes["best"] else None
        self.began = time.monotonic() - notes["seconds"]

    def _notes(self) -> dict[str, Any]:
        """The state without tensors, as plain values."""
        return {
            "seconds": self.seconds,
            "example_passes": self._example_passes(),
            "parts": self.parts,
            "best": [self.best.step, self.best.name, self.best.value] if self.best else None,
            "recent": list(self.guard.recent),
            "scaler": self.stepper.scaler.state_dict(),
            "same": self._same(),
        }

    def _same(self) -> dict[str, Any]:
        """The settings that must be the same for a resumed run to match the uninterrupted one."""
        optimizer = state.settings_of(self.optimizer, scheduled=self.settings.schedule is not None)
        return {
            "seed": self.settings.seed,
            "warm_up_steps": self.settings.warm_up_steps,
            "max_grad_norm": self.settings.max_grad_norm,
            "batch_size": getattr(self.loader, "batch_size", None),
            "batches in an epoch": len(self.loader),
            **{f"optimizer {name}": value for name, value in optimizer.items()},
        }

    def _write(self, store: CheckpointStore, kind: Kind, notes: dict[str, Any]) -> None:
        if self.outputs:
            self.outputs.sync()
        store.save(state.capture(self.module, self.optimizer, self.step, notes), kind)

    def _mean_parts(self, output: StepOutput, share: float) -> dict[str, float]:
        parts = {**output.parts, **self._extra}
        names = sorted(parts)
        values = self.processes.mean(*(float(parts[name]) for name in names), share=share)
        return dict(zip(names, values, strict=True))

    def _validate(self) -> dict[str, float]:
        assert self.settings.validate is not None
        with evaluating(self.module):
            return {name: float(value) for name, value in self.settings.validate(self.objective.model).items()}

    def _keep_if_best(self, values: dict[str, float]) -> None:
        name = self.settings.keep_best_by
        if name and is_better(name, value := pick(name, values), self.best):
            self.best = Best(self.step, name, value)
            self.save("best")

    def _example_passes(self) -> int:
        return int(self.processes.sum(self.objective.example_passes)[0])

    def _last_good(self) -> str:
        if self.store is None:
            return "none, since the run has no run_dir"
        newest = self.store.found()[0]
        return f"{newest} ({self.saved_step} steps)"

    def _interrupted(self) -> Interrupted:
        name = self.stop.asked or "a signal to another process"
        saved = f"everything is saved in {self.store.run_dir}" if self.store else "nothing is saved without a run_dir"
        how = self.settings.resume_command or "the same call with resume=True"
        go_on = f"; resume with: {how}" if self.store else "."
        return Interrupted(f"stopped by {name} after step {self.step}; {saved}{go_on}", step=self.step, signal=name)
