"""From a config to a trained network in a run directory, and from a run directory back to the network.

    config -> data -> model -> objective -> fit -> config.toml, provenance.json, log.jsonl, weights.safetensors

The seed of the config is the only source of randomness: it initialises the network, orders the batches and makes the
noise of the attacks. Weights are read as safetensors; a file of weights decides nothing about what is imported.
"""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.config import Network, RunConfig, complete, config_from_file, config_text, differences, run_name
from holdfast.data import Dataset, Loader
from holdfast.data import load as load_dataset
from holdfast.errors import DataError, InputError, expected
from holdfast.models import Classifier, build
from holdfast.objective import Objective
from holdfast.recipes import METHODS
from holdfast.results import collect_provenance, finish, read_json, write_json_atomic, write_text_atomic
from holdfast.training import OPTIMIZERS, SCHEDULES, FitResult, Processes, Schedule, fit, joined, pick_device
from holdfast.training.checkpoint import read_weights
from holdfast.training.lock import locked

CONFIG, PROVENANCE, WEIGHTS = "config.toml", "provenance.json", "weights.safetensors"

_MAY_CHANGE = (
    "data.root",
    "evaluate.",
    "train.device",
    "train.log_every",
    "train.checkpoint",
    "train.tensorboard",
    "train.half_weights",
)
"""Keys with which a run may go on differently than it began, since they do not touch the weights."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a run needs, in place; `config` is the one asked for with every default written out."""

    config: RunConfig
    data: Dataset
    loader: Loader
    model: Classifier
    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished run: its directory, the network as training left it, and what the trainer says."""

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
    """Load the data and build network, objective, optimiser and schedule for this process; `start` holds weights."""
    device, who = device or pick_device(config.train.device), processes or Processes()
    config = complete(config)
    _check_reduction(config, who)
    if who.world_size > 1:  # one process downloads what is missing, the others find it in the cache
        who.leading(lambda: load_data(_untransformed(config), "train"))
    data = load_data(config, "train")
    config = _with_shape(config, data)
    model = build_model(config.model, seed=config.seed)
    if start is not None:
        put_weights(model, start)
    objective = METHODS[config.method.name](model.to(device), **config.method.settings)
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
    """Train into the run directory `out`, on one process or, under torchrun, on many; `resume` goes on with the run."""
    out, device = Path(out), pick_device(config.train.device)
    with joined(device) as processes:
        goes_on = resume and any((out / "checkpoints").glob("step-*"))
        # a run that goes on from a checkpoint does not need the weights it began with
        start = None if goes_on else start_of(config, out)
        ready = prepare(config, device=device, processes=processes, start=start)
        provenance = collect_provenance(seeds=[config.seed], device=str(device), threads=torch.get_num_threads())
        processes.leading(lambda: _open(out, ready.config, provenance, resume))
        train = ready.config.train
        result = fit(
            ready.objective,
            ready.loader,
            ready.optimizer,
            steps=train.steps,
            schedule=ready.schedule,
            warm_up=train.warm_up,
            seed=config.seed,
            max_grad_norm=train.max_grad_norm,
            explosion=train.explosion,
            amp=train.amp,
            run_dir=out,
            resume=resume,
            resume_command=resume_command,
            checkpoint_every=train.checkpoint_every,
            checkpoint_seconds=train.checkpoint_seconds,
            log_every=train.log_every,
            keep_best_by=train.keep_best_by,
            progress=progress,
            tensorboard=train.tensorboard,
            half_weights=train.half_weights,
        )
        processes.leading(lambda: _close(out, ready.config, provenance, result))
    return Trained(run_dir=out, config=ready.config, model=ready.model, result=result)


def load(path: Path | str, *, network: nn.Module | str | None = None) -> Classifier:
    """The network of a run or results folder, on the CPU, in evaluation mode.

    For a run that trained an own network, pass it: the module, or `package.module:function` that builds it. What the
    folder says is not imported. Weights stored in half precision come back as float32.
    """
    folder = Path(path)
    config = config_from_file(folder / CONFIG)
    own = ":" in config.model.name
    if own and network is None:
        fix = f"if you trust it, call load(..., network={config.model.name!r})"
        raise expected("network=, since the run trained an own network", got="none", fix=fix)
    if isinstance(network, nn.Module):
        model = _wrapped(network, config.model)
    else:
        name = {} if network is None else {"name": network}
        model = build_model(config.model.model_copy(update=name), seed=config.seed)
    put_weights(model, folder)
    return model.eval()


def start_of(config: RunConfig, out: Path) -> Path | None:
    """The weights that `train.init` names: a path, or the run of that method and seed beside the run `out`."""
    init = config.train.init
    if init is None:
        return None
    beside = out.parent / run_name(init, config.seed)
    found = next((path for path in (Path(init), beside) if path.is_file() or (path / WEIGHTS).exists()), None)
    if found is None:
        fix = f"train that network first, with --out {beside}, or start afresh with --train.init none"
        raise expected("weights to start from (train.init)", got=f"none at {init} or {beside}", fix=fix)
    return found


def load_data(config: RunConfig, split: str) -> Dataset:
    """The training images of a config, transformed and limited as it says, or its test images."""
    data, training = config.data, split == "train"
    transforms = (*data.train_transforms, *data.transforms) if training else data.transforms
    dataset = load_dataset(data.name, split, root=data.root, transforms=transforms, **data.options)
    return dataset.stratified(data.limit, config.seed) if training and data.limit else dataset


def build_model(network: Network, *, seed: int) -> Classifier:
    """The registered or own network, initialised from the seed, with its normalisation inside."""
    shape = {key: getattr(network, key) for key in ("num_classes", "in_channels", "image_size")}
    offered = {key: value for key, value in shape.items() if value is not None}
    if ":" in network.name:
        return _wrapped(_own_network(network, offered, seed), network)
    return _wrapped(build(network.name, **{**network.options, **offered, "seed": seed}), network)


def put_weights(model: Classifier, path: Path) -> None:
    """Fill a model from a .safetensors file or a run's folder; its names are the wrapper's or those of the bare net."""
    state = _read_weights(path / WEIGHTS if path.is_dir() else path)
    targets: tuple[nn.Module, ...] = (model, model.net)
    target = next((target for target in targets if target.state_dict().keys() == state.keys()), None)
    if target is None:
        missing, alien = sorted(model.net.state_dict().keys() - state.keys()), sorted(state.keys())
        got = f"{len(alien)} tensors ({', '.join(alien[:4])}, ...) in {path.name}"
        raise DataError(f"expected the tensors of this network ({', '.join(missing[:4])}, ...), got {got}.")
    try:
        target.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"the weights in {path.name} are of another network: {reason}") from None


def _read_weights(file: Path) -> dict[str, Tensor]:
    if not file.exists():
        fix = "a run has its weights when it is finished: `holdfast train --out RUN --resume` goes on with one"
        raise DataError(f"expected weights at {file}, got no such file; {fix}.")
    return read_weights(file)


def _wrapped(net: nn.Module, network: Network) -> Classifier:
    """A network with its normalisation; one that is a Classifier already has its own."""
    if not isinstance(net, Classifier):
        return Classifier(net, mean=network.mean, std=network.std)
    if network.mean is not None or network.std is not None:
        raise expected("no model.mean or model.std for a network that is a Classifier", got="one", fix="leave it out")
    return net


def _own_network(network: Network, offered: dict[str, Any], seed: int) -> nn.Module:
    """Call `package.module:function` with the options and those of num_classes, in_channels, image_size it takes."""
    with _this_folder_importable(), torch.random.fork_rng(devices=[]):
        make = _imported(network.name)
        accepted = inspect.signature(make).parameters
        torch.default_generator.manual_seed(seed)
        net = make(**{key: value for key, value in offered.items() if key in accepted}, **network.options)
    if not isinstance(net, nn.Module):
        raise expected(f"{network.name} to return a torch.nn.Module", got=type(net).__name__)
    return net


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        fix = "run from the folder that holds the package, or install it"
        raise expected("a function package.module:function", got=f"{name} ({error})", fix=fix) from error


@contextmanager
def _this_folder_importable() -> Iterator[None]:
    """The working directory on Python's path for the length of a block, as `python -m` has it."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _untransformed(config: RunConfig) -> RunConfig:
    data = config.data.model_copy(update={"train_transforms": (), "transforms": (), "limit": None})
    return config.model_copy(update={"data": data})


def _with_shape(config: RunConfig, data: Dataset) -> RunConfig:
    """The config with classes, channels and size written down, so that the network can be built without the data."""
    channels, height, width = data.image_shape
    shape = {"num_classes": data.num_classes, "in_channels": channels, "image_size": (height, width)}
    given = {key: getattr(config.model, key) for key in shape if getattr(config.model, key) is not None}
    if given.get("num_classes", data.num_classes) < data.num_classes:
        raise expected(f"model.num_classes >= {data.num_classes}, the classes of the data", got=given["num_classes"])
    return config.model_copy(update={"model": config.model.model_copy(update=shape | given)})


def _check_reduction(config: RunConfig, processes: Processes) -> None:
    if processes.world_size > 1 and config.method.settings.get("reduction") == "sum":
        fix = "run it in one process, or set --method.settings.reduction mean"
        raise expected("reduction = 'mean' with several processes, which average", got="'sum'", fix=fix)


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
    """Begin a run directory, or check that a run may go on with this config."""
    with locked(out):  # whoever is at work there is named before anything of theirs is touched
        _begin(out, config, provenance, resume)


def _begin(out: Path, config: RunConfig, provenance: dict[str, Any], resume: bool) -> None:
    file = out / CONFIG
    if not file.exists():
        write_text_atomic(file, config_text(config))
        write_json_atomic(out / PROVENANCE, provenance)
    elif resume:
        _check_same(config_from_file(file), config)
        write_text_atomic(file, config_text(config))
    else:
        fix = "go on with it by --resume, or name another directory"
        raise InputError(f"expected a new run directory, got {out}, which holds a run; {fix}.")


def _check_same(began: RunConfig, now: RunConfig) -> None:
    changed = differences(began.plain(), now.plain())
    for key, (before, after) in changed.items():
        if not key.startswith(_MAY_CHANGE):
            fix = "resume with the settings the run was started with, or start a new run in another directory"
            raise expected(f"{key} = {before!r}, as the run began", got=repr(after), fix=fix)


def _close(out: Path, config: RunConfig, provenance: dict[str, Any], result: FitResult) -> None:
    """Write down when the run ended, when it was resumed, and what it cost, with the cost of the start it was given."""
    file = out / PROVENANCE
    first = read_json(file) if file.exists() else provenance
    if first["finished"]:
        return  # it was finished before, and nothing was left to do
    again = [provenance["started"]] if first["started"] != provenance["started"] else []
    cost: dict[str, Any] = {
        "steps": result.step,
        "seconds": round(result.seconds, 3),
        "example_passes": result.example_passes,
    }
    with suppress(InputError):  # the weights it began with may be gone by now
        start = start_of(config, out)
        if start is not None and (start / PROVENANCE).exists():
            cost["start"] = read_json(start / PROVENANCE).get("training", {})
    write_json_atomic(file, {**finish(first), "resumed": again, "training": cost})
