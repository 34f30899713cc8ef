"""The state of a run as tensors and plain values: captured for a checkpoint, restored on resume."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import DataError, expected
from holdfast.training.checkpoint import Snapshot

MODEL, OPTIMIZER, OBJECTIVE = "model.", "optimizer.", "objective."
Plain = bool | int | float | str | None


def capture(module: nn.Module, optimizer: torch.optim.Optimizer, step: int, notes: Mapping[str, Any]) -> Snapshot:
    """The state of objective and optimiser after `step` steps; `notes` is any other state to save."""
    state = module.state_dict()
    weights = {name.removeprefix(MODEL): value for name, value in state.items() if name.startswith(MODEL)}
    rest = {OBJECTIVE + name: value for name, value in state.items() if not name.startswith(MODEL)}
    tensors, values = _optimizer_state(optimizer)
    return Snapshot(
        step=step, weights=weights, training={**rest, **tensors}, notes={**notes, "optimizer_values": values}
    )


def restore(snapshot: Snapshot, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Restore a snapshot bit for bit; raises if it belongs to another network or objective."""
    state = {MODEL + name: value for name, value in snapshot.weights.items()}
    state |= _under(OBJECTIVE, snapshot.training)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"the checkpoint belongs to another network or objective: {error}") from None
    values = {**_under(OPTIMIZER, snapshot.training), **snapshot.notes["optimizer_values"]}
    entries: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        index, _, key = name.partition(".")
        entries.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def settings_of(optimizer: torch.optim.Optimizer, *, scheduled: bool) -> dict[str, Any]:
    """Class and settings of an optimiser as plain values; without the learning rate if a schedule sets it."""
    left_out = {"params", "initial_lr"} | ({"lr"} if scheduled else set())
    settings: dict[str, Any] = {"class": type(optimizer).__name__}
    for index, group in enumerate(optimizer.param_groups):
        settings |= {f"groups[{index}].{key}": _plain(group[key]) for key in group if key not in left_out}
    return settings | {"parameters": [len(group["params"]) for group in optimizer.param_groups]}


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if a setting differs from the checkpoint; settings that the checkpoint does not have are ignored."""
    for name in sorted(saved.keys() & now.keys()):
        if saved[name] != now[name]:
            fix = "resume with the original settings, or start a new run in another directory"
            raise expected(f"{name} = {saved[name]}, as in the checkpoint", got=now[name], fix=fix)


def _optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """State tensors under `optimizer.<index>.<name>`, plain values under `<index>.<name>`."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, Plain] = {}
    for index, entry in optimizer.state_dict()["state"].items():
        for key, value in entry.items():
            if isinstance(value, Tensor):
                tensors[f"{OPTIMIZER}{index}.{key}"] = value
            elif isinstance(value, Plain):
                values[f"{index}.{key}"] = value
            else:
                raise expected("an optimiser whose state is tensors and numbers", got=f"{key}: {type(value).__name__}")
    return tensors, values


def _plain(value: Any) -> Any:
    """The value in the form in which JSON returns it."""
    if isinstance(value, Tensor):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
