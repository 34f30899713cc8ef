"""Train the network of a config into a run directory.

    config -> data -> model -> objective -> fit -> config.toml, provenance.json, log.jsonl, weights.safetensors

The seed of the config is the only source of randomness. It determines the initial weights, the order of the batches and
the noise of the attacks.
"""

import inspect
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.config import (
    Override,
    RunConfig,
    complete,
    config_from_file,
    config_text,
    differences,
    make_config,
    run_name,
)
from holdfast.data import Dataset, Loader, to_float
from holdfast.data import load as load_dataset
from holdfast.errors import InputError, expected
from holdfast.experiment.layout import CONFIG, PROVENANCE, WEIGHTS, has_checkpoint, run_folder, start_preset
from holdfast.experiment.networks import build_model
from holdfast.experiment.weights import put_weights
from holdfast.models import Classifier
from holdfast.models.foreign.registry import is_foreign
from holdfast.models.probe import probe_as_they_are
from holdfast.models.weight_files import SUFFIXES
from holdfast.objective import Objective
from holdfast.recipes import METHODS
from holdfast.runs import collect_provenance, finish
from holdfast.runs.folders import check_not_measured
from holdfast.storage.json_files import read_json, write_json_atomic, write_text_atomic
from holdfast.storage.lock import locked
from holdfast.training import (
    OPTIMIZERS,
    SCHEDULES,
    FitResult,
    FitSettings,
    Processes,
    Schedule,
    fit,
    joined,
    pick_device,
)

_MAY_CHANGE = (
    "data.root",
    "evaluate.",
    "train.device",
    "train.log_every",
    "train.checkpoint",
    "train.tensorboard",
    "train.half_weights",
)
"""Config keys that may change when a run is resumed, since they do not affect the weights."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything that training needs; `config` is the requested config with every default written out."""

    config: RunConfig
    data: Dataset
    loader: Loader
    model: Classifier
    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished run: its directory, its config, the trained network, and the result of `fit`."""

    run_dir: Path
    config: RunConfig
    model: Classifier
    result: FitResult


def prepare(
    config: RunConfig,
    *,
    device: torch.device | None = None,
    processes: Processes | None = None,
    start: Path | None = None,
) -> Prepared:
    """Load the data and build network, objective, optimiser and schedule; `start` is a path to initial weights."""
    device, who = device or pick_device(config.train.device), processes or Processes()
    config = complete(config)
    _check_reduction(config, who)
    if who.world_size > 1:  # one process downloads missing data; the others read it from the cache
        who.leading(lambda: load_data(_untransformed(config), "train"))
    data = load_data(config, "train")
    config = _with_shape(config, data)
    model = build_model(config.model, seed=config.seed)
    if start is not None:
        put_weights(model, start)
    if is_foreign(config.model.name):
        _check_fits(model, data)
    objective = METHODS[config.method.name](model.to(device), **config.method.settings)
    objective.check_network(to_float(data.x[:1], device))
    loader = Loader(
        data, config.train.batch_size, seed=config.seed, device=device, rank=who.rank, world_size=who.world_size
    )
    return Prepared(
        config=config,
        data=data,
        loader=loader,
        model=model,
        objective=objective,
        optimizer=_optimizer(config, model),
        schedule=_schedule(config),
    )


def run_training(
    config: RunConfig, out: Path | str, *, resume: bool = False, progress: bool = True, resume_command: str = ""
) -> Trained:
    """Train into the run directory `out`, in one process or, under torchrun, in several; `resume` continues the run."""
    out, device = Path(out), pick_device(config.train.device)
    check_not_measured(out)
    with joined(device) as processes:
        goes_on = resume and has_checkpoint(out)
        # A run that resumes from a checkpoint does not need its initial weights.
        start = None if goes_on else start_of(config, out)
        ready = prepare(config, device=device, processes=processes, start=start)
        provenance = collect_provenance(seeds=[config.seed], device=str(device), threads=torch.get_num_threads())
        processes.leading(lambda: _open(out, ready.config, provenance, resume))
        settings = FitSettings(
            **shared_with_fit(ready.config),
            schedule=ready.schedule,
            seed=config.seed,
            run_dir=out,
            resume=resume,
            resume_command=resume_command,
            progress=progress,
        )
        result = fit(ready.objective, ready.loader, ready.optimizer, settings)
        processes.leading(lambda: _close(out, ready.config, provenance, result))
    return Trained(run_dir=out, config=ready.config, model=ready.model, result=result)


def start_of(config: RunConfig, out: Path) -> Path | None:
    """Path of the initial weights named by `train.init`: a file or folder, or the run of that method and seed.

    The run is searched next to `out`, then in the default folder of `holdfast train`.
    """
    init = config.train.init
    if init is None:
        return None
    places = [Path(init)]
    if not _is_path(init):
        places.append(out.parent / run_name(init, config.seed))
    preset = start_preset(config)
    if preset is not None:
        places.append(run_folder(preset, config.seed))
    found = next((path for path in places if path.is_file() or (path / WEIGHTS).exists()), None)
    if found is None:
        fix = (
            f"pass a run directory or a file of weights ({', '.join(SUFFIXES)}), "
            "or use --train.init none to start from random weights"
            if preset is None
            else f"train it first: holdfast train {preset} --seed {config.seed} --out {places[-1]}"
        )
        got = f"none at {' or '.join(dict.fromkeys(map(str, places)))}"
        raise expected("initial weights (train.init)", got=got, fix=fix)
    return found


def _is_path(init: str) -> bool:
    """Whether initial weights are named by a path, so that no run of a method can be meant."""
    return Path(init).suffix.lower() in SUFFIXES or len(Path(init).parts) > 1


def missing_starts(config: RunConfig, out: Path, changes: Sequence[Override] = ()) -> list[tuple[str, Path]]:
    """Presets and folders of the missing runs that this run is initialised from, directly or indirectly.

    `changes` are those of the overrides that also apply to them. With another network or other data they are runs of
    their own, beside `out`.
    """
    try:
        start_of(config, out)
    except InputError:
        preset = start_preset(config)
        if preset is None:
            raise
        own = any(key in ("model.name", "data.name") for key, _ in changes)
        beside = out.parent / run_name(config.train.init or "", config.seed)
        folder = beside if own else run_folder(preset, config.seed)
        start = make_start_config(preset, [("seed", str(config.seed)), *changes])
        return [*missing_starts(start, folder, changes), (preset, folder)]
    return []


def make_start_config(preset: str, changes: Sequence[tuple[str, str]]) -> RunConfig:
    """The config of a run that another run is initialised from."""
    return make_config(preset, overrides=changes)


def load_data(config: RunConfig, split: str) -> Dataset:
    """Training images with the transforms and the limit of the config, or its test images."""
    data, training = config.data, split == "train"
    transforms = (*data.train_transforms, *data.transforms) if training else data.transforms
    dataset = load_dataset(data.name, split, root=data.root, transforms=transforms, **data.options)
    return dataset.stratified(data.limit, config.seed) if training and data.limit else dataset


def shared_with_fit(config: RunConfig) -> dict[str, Any]:
    """The keys of [train] that are also fields of `FitSettings`."""
    names = {field.name for field in fields(FitSettings)} - {"schedule"}
    return {name: value for name, value in config.train if name in names}


def _untransformed(config: RunConfig) -> RunConfig:
    data = config.data.model_copy(update={"train_transforms": (), "transforms": (), "limit": None})
    return config.model_copy(update={"data": data})


def _with_shape(config: RunConfig, data: Dataset) -> RunConfig:
    """The config with number of classes, channels and image size, so that the network can be built without data."""
    channels, height, width = data.image_shape
    shape = {"num_classes": data.num_classes, "in_channels": channels, "image_size": (height, width)}
    given = {key: getattr(config.model, key) for key in shape if getattr(config.model, key) is not None}
    if given.get("num_classes", data.num_classes) < data.num_classes:
        raise expected(f"model.num_classes >= {data.num_classes}, as in the data", got=given["num_classes"])
    return config.model_copy(update={"model": config.model.model_copy(update=shape | given)})


def _check_fits(model: Classifier, data: Dataset) -> None:
    """Refuse a network from elsewhere that does not take the images or has fewer outputs than they have classes."""
    found = probe_as_they_are(model, to_float(data.x[:2]))
    if found.logits.shape[1] < data.num_classes:
        got, fix = f"{found.logits.shape[1]} outputs", f"build it with num_classes={data.num_classes}"
        raise expected(f"a network with an output for each of the {data.num_classes} classes", got=got, fix=fix)


def _check_reduction(config: RunConfig, processes: Processes) -> None:
    if processes.world_size > 1 and config.method.settings.get("reduction") == "sum":
        fix = "run it in one process, or set --method.settings.reduction mean"
        raise expected("reduction = 'mean' with several processes, since gradients are averaged", got="'sum'", fix=fix)


def _optimizer(config: RunConfig, model: nn.Module) -> torch.optim.Optimizer:
    train = config.train
    settings: dict[str, Any] = {"lr": _schedule(config)(0), "weight_decay": train.weight_decay}
    if train.optimizer == "sgd":
        settings |= {"nesterov": train.nesterov} | ({} if train.momentum is None else {"momentum": train.momentum})
    optimizer: torch.optim.Optimizer = OPTIMIZERS[train.optimizer](**settings)(model)
    return optimizer


def _schedule(config: RunConfig) -> Schedule:
    train = config.train
    kind, settings = SCHEDULES[train.schedule.kind], train.schedule.settings
    offered = {"lr": train.lr, "steps": train.steps}
    schedule: Schedule = kind(
        **{k: v for k, v in offered.items() if k in inspect.signature(kind).parameters}, **settings
    )
    return schedule


def _open(out: Path, config: RunConfig, provenance: dict[str, Any], resume: bool) -> None:
    """Create a run directory, or check that its run may resume with this config."""
    with locked(out):  # fails, naming the other process, before any of its files is changed
        _begin(out, config, provenance, resume)


def _begin(out: Path, config: RunConfig, provenance: dict[str, Any], resume: bool) -> None:
    file = out / CONFIG
    if not file.exists():
        write_text_atomic(file, config_text(config))
        write_json_atomic(out / PROVENANCE, provenance)
    elif resume:
        _check_same(complete(config_from_file(file)), config)
        write_text_atomic(file, config_text(config))
    else:
        fix = "continue it with --resume, or choose another directory"
        raise InputError(f"expected a new run directory, got {out}, which holds a run; {fix}.")


def _check_same(began: RunConfig, now: RunConfig) -> None:
    changed = differences(began.plain(), now.plain())
    for key, (before, after) in changed.items():
        if not key.startswith(_MAY_CHANGE):
            fix = "resume with the original settings, or start a new run in another directory"
            raise expected(f"{key} = {before!r}, as at the start of the run", got=repr(after), fix=fix)


def _close(out: Path, config: RunConfig, provenance: dict[str, Any], result: FitResult) -> None:
    """Record when the run finished, when it was resumed, and its cost, with the cost of the run it started from."""
    file = out / PROVENANCE
    first = read_json(file) if file.exists() else provenance
    if first["finished"]:
        return  # already finished by an earlier call
    again = [provenance["started"]] if first["started"] != provenance["started"] else []
    cost: dict[str, Any] = {
        "steps": result.step,
        "seconds": round(result.seconds, 3),
        "example_passes": result.example_passes,
    }
    with suppress(InputError):  # the initial weights may have been deleted since
        start = start_of(config, out)
        if start is not None and (start / PROVENANCE).exists():
            cost["start"] = read_json(start / PROVENANCE).get("training", {})
    write_json_atomic(file, {**finish(first), "resumed": again, "training": cost})
