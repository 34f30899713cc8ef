"""Weights under the names and in the precision that the user's own code has, and files of the same kind."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.experiment.layout import WEIGHTS
from holdfast.experiment.weights import read_weights_file
from holdfast.models import Classifier
from holdfast.models.weight_files import TORCH_SUFFIXES
from holdfast.models.weight_names import match_names
from holdfast.storage.files import write_file
from holdfast.training.checkpoint import pack


@dataclass(frozen=True, kw_only=True)
class OwnWeights:
    """How the tensors of `target`, the network of the user, are saved.

    `names` maps the user's name of a tensor to its name in `target`, `dtypes` to its type. `place` is where the tensors
    are in a checkpoint ("" for a plain state dict), and `suffix` is the ending of the user's file.
    """

    target: nn.Module
    names: dict[str, str]
    dtypes: dict[str, torch.dtype]
    place: str = ""
    suffix: str = ""

    def tensors(self) -> dict[str, Tensor]:
        """The current weights under the user's names, in the user's types."""
        state = self.target.state_dict()
        return {own: state[name].detach().to("cpu", self.dtypes[own]) for own, name in self.names.items()}

    def round(self) -> None:
        """Give the network the weights that a file can hold, so that what is measured is what is saved."""
        self.target.load_state_dict(
            self.target.state_dict() | {self.names[own]: value for own, value in self.tensors().items()}
        )

    def restore_types(self) -> None:
        """Give the tensors of the network their own types again, in place."""
        own = {name: self.dtypes[key] for key, name in self.names.items()}
        for name, value in self.target.state_dict(keep_vars=True).items():
            if name in own:
                value.data = value.data.to(own[name])

    def files(self, folder: Path) -> list[Path]:
        """The files that `write` makes in a folder; the last one is of the kind that the user has."""
        like_own = [folder / f"weights{self.suffix}"] if self.suffix in TORCH_SUFFIXES else []
        return [folder / WEIGHTS, *like_own]

    def write(self, folder: Path) -> list[Path]:
        """Write `weights.safetensors` and, if the user has a file of `torch.save`, one of the same kind."""
        tensors = self.tensors()
        paths = self.files(folder)
        write_file(paths[0], pack(tensors))
        if len(paths) > 1:
            keys = [key for key in self.place.split(".") if key]
            content: Any = tensors
            for key in reversed(keys):
                content = {key: content}
            buffer = BytesIO()
            torch.save(content, buffer)
            write_file(paths[1], buffer.getvalue())
        return paths


def own_weights(model: nn.Module) -> OwnWeights:
    """The form of the weights of a module: its own names and types.

    >>> own_weights(nn.Linear(2, 1).half()).dtypes
    {'weight': torch.float16, 'bias': torch.float16}
    """
    state = model.state_dict()
    return OwnWeights(
        target=model, names={name: name for name in state}, dtypes={name: value.dtype for name, value in state.items()}
    )


def own_weights_of_file(model: Classifier, path: Path, key: str | None = None) -> OwnWeights:
    """The form of the weights in a file or run directory that belongs to `model`."""
    file = path / WEIGHTS if path.is_dir() else path
    found = read_weights_file(file, key)
    match = match_names((model, model.net), found.tensors, file.name)
    return OwnWeights(
        target=match.target,
        names=match.names,
        dtypes={name: value.dtype for name, value in found.tensors.items()},
        place=found.place,
        suffix=file.suffix.lower(),
    )
