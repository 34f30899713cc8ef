"""What the rows in a folder were measured with, so that an evaluation never goes on with rows of another one."""

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.data.dataset import Dataset
from holdfast.errors import DataError
from holdfast.results.files import read_json, write_json_atomic
from holdfast.types import Model

FILE = "measured.json"


def claim(folder: Path, parts: dict[str, Any]) -> None:
    """Write down what this evaluation measures, or refuse a folder that holds rows of something else."""
    path = folder / FILE
    orphans = [name for name in ("examples.csv", "accuracy.csv") if (folder / name).exists()]
    if not path.exists() and not orphans:
        write_json_atomic(path, parts)
        return
    before = read_json(path) if path.exists() else dict.fromkeys(parts)
    changed = [name for name in parts if name in before and before[name] != parts[name]]
    if not changed:
        write_json_atomic(path, before | parts)
    else:
        raise DataError(
            f"expected {folder} to hold rows of this evaluation, got rows with another {', '.join(changed)}; "
            f"use a new folder, or delete examples.csv, accuracy.csv and {FILE} there."
        )


def identity(model: Model, data: Dataset, attacks: dict[str, Any], seed: int) -> dict[str, Any]:
    """Checksums of network and images, the seed, and the settings of every attack in words."""
    return {
        "network": network_checksum(model),
        "images": _images(data),
        "seed": seed,
        **{f"attack {name}": _words(attack) for name, attack in attacks.items()},
    }


def network_checksum(model: Model) -> str:
    """SHA-256 of all weights and buffers; of a plain function, which has none, its name."""
    if not isinstance(model, nn.Module):
        return getattr(model, "__name__", type(model).__name__)
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _images(data: Dataset) -> str:
    digest = hashlib.sha256(data.y.numpy().tobytes() + data.ids.numpy().tobytes())
    return f"{data.checksum or data.name} {digest.hexdigest()}"


def _words(attack: Any) -> str:
    # settings are frozen dataclasses, whose text is complete but for the addresses of functions and objects
    return re.sub(r" at 0x[0-9a-f]+", "", repr(attack))
