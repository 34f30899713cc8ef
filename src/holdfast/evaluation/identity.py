"""What the rows in a folder were measured with, so that an evaluation never goes on with rows of another one."""

import hashlib
import re
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.data.dataset import Dataset
from holdfast.errors import DataError
from holdfast.results.files import read_json, write_json_atomic
from holdfast.types import Model

FILE = "measured.json"


def claim(folder: Path, parts: dict[str, Any]) -> None:
    """Write down what this evaluation measures, or refuse a folder that holds rows of something else."""
    path = folder / FILE
    if not path.exists():
        write_json_atomic(path, parts)
        return
    before = read_json(path)
    changed = [name for name in parts if before.get(name) != parts[name]]
    if changed:
        raise DataError(
            f"expected {folder} to hold rows of this evaluation, got rows with another {', '.join(changed)}; "
            f"use a new folder, or delete examples.csv, accuracy.csv and {FILE} there."
        )


def identity(model: Model, data: Dataset, attacks: dict[str, Any], seed: int) -> dict[str, Any]:
    """Checksums of network and images, the seed, and the settings of every attack in words."""
    return {
        "network": network_checksum(model),
        "images": data.checksum or f"{data.name}, {len(data)} images",
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
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _words(attack: Any) -> str:
    # settings are frozen dataclasses, whose text is complete but for the addresses of functions
    return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", repr(attack))
