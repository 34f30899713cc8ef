"""A checkpoint: a folder with weights and training tensors as safetensors, and the rest as JSON with checksums.

`weights.safetensors` is the state dict of the model, including buffers, and can be loaded on its own. A checkpoint
contains no executable code.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from holdfast.errors import DataError, expected
from holdfast.storage.checked_json import read_sealed_json, sealed_json
from holdfast.storage.files import publish_folder

WEIGHTS, TRAINING, STATE = "weights.safetensors", "training.safetensors", "state.json"
FORMAT = 1
_SEAL, _MARK = "holdfast", "sha256:"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The complete state of a run after `step` steps."""

    step: int
    weights: Mapping[str, Tensor]
    training: Mapping[str, Tensor]
    notes: Mapping[str, Any]


def write_checkpoint(folder: Path, snapshot: Snapshot) -> None:
    """Write a snapshot to `folder`, atomically."""
    tensors = {WEIGHTS: pack(snapshot.weights), TRAINING: pack(snapshot.training)}
    files = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in tensors.items()}
    state = {"format": FORMAT, "step": snapshot.step, "notes": snapshot.notes, "files": files}
    try:
        sealed = sealed_json(state)
    except (TypeError, ValueError) as error:
        raise expected("only finite numbers, text and lists besides the tensors", got=str(error)) from None
    publish_folder(folder, {**tensors, STATE: sealed})


def read_checkpoint(folder: Path) -> Snapshot:
    """Read and verify a checkpoint; a DataError names the first damaged file."""
    state = read_sealed_json(folder / STATE)
    if state.get("format") != FORMAT:
        raise DataError(f"{folder / STATE} has format {state.get('format')}, but this version reads format {FORMAT}.")
    try:
        step, notes, files = int(state["step"]), dict(state["notes"]), dict(state["files"])
        weights, training = (unpack(folder / name, **files[name]) for name in (WEIGHTS, TRAINING))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / STATE} does not describe a checkpoint ({error!r}).") from None
    return Snapshot(step=step, weights=weights, training=training, notes=notes)


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as the bytes of a safetensors file; tied tensors are written once per name."""
    wrong = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
    if wrong:
        raise expected("a state dict that holds only tensors", got=f"something else under {wrong}")
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    return safetensors.torch.save(plain, metadata={_SEAL: _MARK + _digest(plain)})


def read_weights(file: Path) -> dict[str, Tensor]:
    """Read the tensors of any safetensors file; a file written by holdfast must match its checksum."""
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            notes = opened.metadata() or {}
        tensors = safetensors.torch.load_file(file)
    except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"cannot read {file} as safetensors: {error}.") from None
    # Either the key or the mark implies a checksum, so that one flipped bit cannot disable the check.
    seals = [(key, text) for key, text in notes.items() if key == _SEAL or text.startswith(_MARK)]
    if seals and seals != [(_SEAL, _MARK + _digest(tensors))]:
        raise DataError(f"{file} is damaged: its tensors do not match their checksum; restore it or train again.")
    return tensors


def unpack(path: Path, *, size: int, sha256: str) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file after verifying its size and checksum."""
    try:
        found = path.stat().st_size
        if found != size:  # checked before reading, so that an oversized file cannot fill memory
            raise DataError(f"{path} is damaged: it has {found} bytes instead of {size}.")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DataError(f"{path} is damaged: its content does not match its checksum.")
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a safetensors file: {error}.") from None


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {list(value.shape)} ".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
