"""One hardening, step by step: plan, audit, training, audit, files."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.config import differences, large_steps
from holdfast.data import Dataset, Loader, to_float
from holdfast.engine.checks import check_labels
from holdfast.errors import InputError, expected
from holdfast.evaluation.audit import check_audit, run_audit
from holdfast.evaluation.audit_result import Audit
from holdfast.evaluation.protocol import OnProgress
from holdfast.experiment.hardening.guarded import GuardedObjective
from holdfast.experiment.hardening.images import Images, accuracy_on
from holdfast.experiment.hardening.layers import fine_tuning_modes, frozen_parameters
from holdfast.experiment.hardening.own_weights import OwnWeights
from holdfast.experiment.hardening.plan import WARM_UP, Plan, audit_settings, make_plan, method_settings
from holdfast.experiment.hardening.result import Hardened
from holdfast.experiment.hardening.seconds import Seconds
from holdfast.experiment.hardening.settings import HardenSettings
from holdfast.experiment.layout import WEIGHTS
from holdfast.models import Classifier
from holdfast.models.probe import probe_as_they_are
from holdfast.objective import Objective
from holdfast.recipes import METHODS
from holdfast.report import view_runs, write_report
from holdfast.runs import read_run
from holdfast.runs.folders import check_not_training_run
from holdfast.storage.files import write_file
from holdfast.storage.json_files import plain, read_json, write_json_atomic
from holdfast.training import OPTIMIZERS, FitSettings, OneCycle, fit
from holdfast.training.checkpoint import pack

PLAN, RESULT, PAGE = "plan.json", "result.json", "report.html"
BEFORE, AFTER = "before", "after"

GRADIENT_NORM = 5.0
RISE = 0.15
"""Share of the steps over which the learning rate grows; then it falls to zero."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The inputs of a hardening, its folder, and whom it tells about its progress."""

    network: Classifier
    images: Images
    settings: HardenSettings
    form: OwnWeights
    folder: Path | None
    resume: bool
    device: torch.device
    progress: bool
    on_progress: OnProgress | None
    say: Callable[[str], None]
    notes: tuple[str, ...]
    model_name: str
    data_name: str
    resume_command: str
    continue_with: str

    def run(self) -> Hardened:
        """Do everything; if it fails or is interrupted, the network gets its original weights back."""
        images, settings, began = self.images, self.settings, time.monotonic()
        method = method_settings(settings, images.train.image_shape)
        for part in (images.train, images.audited):
            check_fits(self.network, part, self.device)
        size = min(settings.batch_size, len(images.train))
        loader = Loader(images.train, size, seed=settings.seed, device=self.device, drop_last=True)
        with undone_on_error(self.network):
            objective = METHODS[settings.method](self.network, **method)
            objective.check_network(to_float(images.train.x[:1], self.device))
            with fine_tuning_modes(self.network, batch_norm=settings.batch_norm):
                plan = self._plan(objective, loader, method)
            objective = METHODS[settings.method](self.network, **plan.method)
            seconds = Seconds(began, None if self.folder is None else self.folder / PLAN)
            self.say(str(plan))
            with seconds.phase("audit before"):
                before = self._audit(plan, BEFORE)
            self.say(f"before: {before.verdict}")
            with seconds.phase("training"):
                guarded = self._train(objective, loader, plan)
            self.form.round()
            files = self._write_weights()
            with seconds.phase("audit after"):
                after = self._audit(plan, AFTER)
            found = Hardened(
                model=self.network,
                before=before,
                after=after,
                settings=settings,
                plan=plan,
                checks=tuple(guarded.checks),
                kept_step=guarded.kept_step,
                watched=(guarded.accuracy, accuracy_on(self.network, images.watched, self.device)),
                notes=(
                    *self._about_training_images(),
                    *self._unreached(plan),
                    *self._few_steps(plan),
                    *large_steps(plan.method, option="{} = "),
                ),
                seconds=seconds.total(),
                files=tuple(files),
                continue_with=self.continue_with,
            )
        if self.folder is not None:
            write_json_atomic(self.folder / RESULT, plain(found.plain()))
            views = view_runs([read_run(self.folder / part) for part in (BEFORE, AFTER)])
            write_report(
                views,
                self.folder / PAGE,
                title=f"{self.model_name} before and after hardening",
                before_after=found.view,
            )
        return found

    def _plan(self, objective: Objective, loader: Loader, method: dict[str, Any]) -> Plan:
        """The stored plan of a run that continues, else a new one."""
        asked = plain(
            {"settings": asdict(self.settings) | {"minutes": None}, "method": method, "images": self.images.described()}
        )
        file = None if self.folder is None else self.folder / PLAN
        if file is not None and file.exists():
            if not self.resume:
                fix = "continue it with resume=True, or choose another directory"
                raise InputError(f"expected a new directory, got {self.folder}, which holds a hardening; {fix}.")
            stored = read_json(file)
            check_same(stored["asked"], asked)
            return Plan(**stored["plan"] | {"unreached": tuple(stored["plan"]["unreached"])})
        if self.folder is not None:
            check_not_training_run(self.folder, "hardening")
        plan = make_plan(self.network, objective, loader, self.images.audited, self.settings, method)
        objective.zero_grad(set_to_none=True)
        check_audit(self.network, self.images.audited, audit_settings(self.settings, plan), self.device)
        if file is not None:
            write_json_atomic(file, {"asked": asked, "plan": plain(plan.plain())})
        return plan

    def _audit(self, plan: Plan, part: str) -> Audit:
        return run_audit(
            self.network,
            self.images.audited,
            audit_settings(self.settings, plan),
            out=None if self.folder is None else self.folder / part,
            device=self.device,
            on_progress=self._told(part),
            notes=self.notes,
            model_name=f"{self.model_name}, {part}",
            data_name=self.data_name,
        )

    def _told(self, part: str) -> OnProgress | None:
        tell = self.on_progress
        return None if tell is None else lambda what, done, total: tell(f"{part}: {what}", done, total)

    def _train(self, objective: Objective, loader: Loader, plan: Plan) -> GuardedObjective:
        """Fine-tune with the guard; afterwards the network has the last state within the limit."""
        guarded = GuardedObjective(
            objective,
            accuracy=accuracy_on(self.network, self.images.watched, self.device),
            limit=self.settings.max_accuracy_drop,
            steps=plan.steps,
            every=plan.every,
            warm_up=plan.warm_up_steps,
        )

        def validate(model: nn.Module) -> Mapping[str, float]:
            check = guarded.look(accuracy_on(model, self.images.watched, self.device))
            return {"accuracy_held_out": check.accuracy, "strength": check.strength}

        modes = fine_tuning_modes(self.network, batch_norm=self.settings.batch_norm)
        with frozen_parameters(self.network, plan.unreached), modes:
            optimizer = OPTIMIZERS["adam"](lr=plan.lr)(self.network)
            fit(
                guarded,
                loader,
                optimizer,
                FitSettings(
                    steps=plan.steps,
                    schedule=OneCycle(lr=plan.lr, steps=plan.steps, rise=RISE),
                    warm_up=WARM_UP,
                    seed=self.settings.seed,
                    max_grad_norm=GRADIENT_NORM,
                    run_dir=None if self.folder is None else self.folder / AFTER,
                    resume=self.resume,
                    resume_command=self.resume_command,
                    checkpoint_seconds=120.0,
                    log_every=plan.every,
                    validate=validate,
                    validate_every=plan.every,
                    progress=self.progress,
                    keep_modes=True,
                ),
            )
        guarded.restore_kept()
        return guarded

    def _write_weights(self) -> list[Path]:
        """Write the weights under the user's names, and those of the run `after` under ours."""
        if self.folder is None:
            return []
        write_file(self.folder / AFTER / WEIGHTS, pack(self.network.state_dict()))
        return self.form.write(self.folder)

    def _about_training_images(self) -> list[str]:
        """The notes on the training images that the audited ones do not have; the audits have those."""
        known = self.images.audited.notes
        return [f"training images: {note}" for note in self.images.train.notes if note not in known]

    def _unreached(self, plan: Plan) -> list[str]:
        if not plan.unreached:
            return []
        return [f"the loss does not depend on {', '.join(plan.unreached[:5])}, so they stay as they are"]

    def _few_steps(self, plan: Plan) -> list[str]:
        if plan.steps >= 100 or self.settings.steps is not None:
            return []
        return [f"only {plan.steps} steps fit into the time; give it more minutes for a larger gain"]


def check_fits(network: Classifier, data: Dataset, device: torch.device) -> None:
    """Raise if the network does not take the images, or has fewer outputs than they have classes."""
    found = probe_as_they_are(network, to_float(data.x[:2], device))
    check_labels(data.y, len(data), found.logits.shape[1])


@contextmanager
def undone_on_error(network: nn.Module) -> Iterator[None]:
    """Give a network its weights back if the block raises."""
    before: dict[str, Tensor] = {name: value.detach().clone() for name, value in network.state_dict().items()}
    try:
        yield
    except BaseException:
        network.load_state_dict(before)
        raise


def check_same(began: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue a hardening with other settings or other images."""
    for key, (before, after) in differences(dict(began), dict(now)).items():
        fix = "resume with the original settings and images, or start anew in another directory"
        raise expected(f"{key} = {before!r}, as at the start of the run", got=repr(after), fix=fix)
