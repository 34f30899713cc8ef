"""Weights in files written by `torch.save`: read without executing code, and found inside a checkpoint.

`torch.load` is called with `weights_only=True` only, which builds tensors, plain containers and what `PLAIN_GLOBALS`
lists. A checkpoint may hold more than weights (an epoch, an optimiser, averaged weights); the state dict is searched
under the usual names.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.errors import DataError, expected, reason
from holdfast.models.plain_globals import PLAIN_GLOBALS

TORCH_SUFFIXES = (".pt", ".pth", ".th", ".ckpt", ".bin")
SUFFIXES = (".safetensors", *TORCH_SUFFIXES)

STATE_KEYS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params", "ema", "state_dict_ema")
"""Names under which checkpoints keep the weights, in the order in which they are tried."""

MAX_DEPTH = 4
"""Depth of nesting at which the search for the weights stops."""


@dataclass(frozen=True, kw_only=True)
class FoundWeights:
    """A state dict, the place in the checkpoint where it was found ("" for the whole file), and other such places."""

    tensors: dict[str, Tensor]
    place: str = ""
    others: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: which of several sets of weights was taken."""
        if not self.others:
            return ()
        others = ", ".join(repr(other) for other in self.others)
        return (f"the checkpoint has several sets of weights: {self.place!r} is used, not {others}",)


def read_torch_file(path: Path, key: str | None = None) -> FoundWeights:
    """Read the weights of a file that `torch.save` wrote; `key` selects a place such as 'ema' or 'model.ema'."""
    return find_weights(_loaded(path), path.name, key)


def find_weights(content: Any, name: str, key: str | None = None) -> FoundWeights:
    """Find the state dict in what a checkpoint holds.

    >>> find_weights({"epoch": 3, "model": {"state_dict": {"w": torch.zeros(2)}}}, "last.pt").place
    'model.state_dict'
    """
    if not isinstance(content, Mapping):
        fix = "save it with torch.save(model.state_dict(), 'w.pt')"
        raise expected(f"a state dict in {name}", got=f"an object of type {type(content).__name__}", fix=fix)
    places = dict(_places(content, "", MAX_DEPTH))
    if key is not None:
        if key not in places:
            fix = f"the file has weights under {', '.join(map(repr, places)) or 'no name'}"
            raise expected(f"weights under {key!r} in {name}", got="none", fix=fix)
        return FoundWeights(tensors=places[key], place=key)
    if not places:
        got = f"only {', '.join(map(str, list(content)[:5])) or 'nothing'}"
        raise expected(f"tensors in {name}", got=got, fix="save them with torch.save(model.state_dict(), 'w.pt')")
    first, *others = places
    return FoundWeights(tensors=places[first], place=first, others=tuple(others))


def _places(content: Mapping[Any, Any], place: str, depth: int) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Every state dict below `content` with its place; the names of `STATE_KEYS` first, then the mapping itself."""
    inner = {str(key): value for key, value in content.items() if isinstance(value, Mapping)} if depth else {}
    found = [hit for key in STATE_KEYS if key in inner for hit in _places(inner[key], _join(place, key), depth - 1)]
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    if found:
        yield from found
    elif tensors:
        yield place, tensors
    elif len(inner) == 1:  # one table under a name of the user's own
        key, only = next(iter(inner.items()))
        yield from _places(only, _join(place, key), depth - 1)


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _loaded(path: Path) -> Any:
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(PLAIN_GLOBALS):
            warnings.simplefilter("ignore")  # PyTorch warns about TorchScript archives before it refuses them
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise _refusal(path, error) from None


def _refusal(path: Path, error: Exception) -> DataError:
    """Why the file cannot be read, in one sentence."""
    safe = "save the weights alone: torch.save(model.state_dict(), 'w.pt')"
    if "TorchScript" in str(error):
        return DataError(f"expected a state dict in {path.name}, got a TorchScript archive; {safe}.")
    found = re.search(r"GLOBAL (\S+) was not an allowed", str(error)) or re.search(r"`(\S+)` .*allowed", str(error))
    if found:
        got = f"a pickled object ({found.group(1)}), which could execute code"
        return DataError(f"expected tensors and plain containers in {path.name}, got {got}; {safe}.")
    shown = "the file is damaged or was not written by torch.save"
    detail = "" if "weights_only" in str(error) else f" ({reason(error)})"
    return DataError(f"cannot read {path.name} with torch.load: {shown}{detail}.")
