"""The index of the zoo: one entry per network, read from `networks/index.json`. Does not load PyTorch."""

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.errors import expected
from holdfast.runs.names import STRONGEST
from holdfast.storage.json_files import read_json, read_text

PREFIX = "zoo:"
NETWORKS = Path(__file__).with_name("networks")
INDEX, CARD, CONFIG, WEIGHTS = "index.json", "card.md", "config.toml", "weights.safetensors"


@dataclass(frozen=True, kw_only=True)
class ZooNetwork:
    """One network of the zoo: `name` is dataset/method, `file` the name of its weights in a release.

    Images must pass through `transforms` before the network sees them: `hf.data.load(..., transforms=...)`. Accuracies,
    `top_k` and `kendall` are fractions; the latter two are medians under `attack`, the strongest of those that were
    measured. `hf.zoo.card` has all figures with their n and intervals.
    """

    name: str
    network: str
    preset: str
    seed: int
    transforms: tuple[str, ...]
    natural_accuracy: float | None
    pgd_accuracy: float | None
    attack: str
    top_k: float | None
    kendall: float | None
    packaged: bool
    file: str
    bytes: int
    sha256: str

    @property
    def folder(self) -> Path:
        """The folder with its config and card, and its weights if they are packaged."""
        return NETWORKS / self.name

    @property
    def under_strongest(self) -> tuple[float | None, float | None]:
        """`top_k` and `kendall` if they are of the strongest attack, else None: figures that can be compared."""
        return (self.top_k, self.kendall) if self.attack == STRONGEST else (None, None)


def list_networks() -> tuple[ZooNetwork, ...]:
    """All networks of the zoo, by dataset and method.

    >>> import holdfast as hf
    >>> "gtsrb/madry" in [network.name for network in hf.zoo.list()]
    True
    """
    return _read(NETWORKS / INDEX)


def find(name: str) -> ZooNetwork:
    """The network called `name`, with or without the prefix `zoo:`."""
    wanted = name.removeprefix(PREFIX)
    known = {network.name: network for network in list_networks()}
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`holdfast zoo list` shows all networks"
    raise expected(f"a network of the zoo ({', '.join(known)})", got=repr(wanted), fix=hint)


def card(name: str) -> str:
    """The model card of a network as Markdown: data, method, figures with n and seed, licence, how to make it again.

    >>> import holdfast as hf
    >>> hf.zoo.card("gtsrb/madry").splitlines()[0]
    '# gtsrb/madry'
    """
    return read_text(find(name).folder / CARD)


def read_index(path: Path) -> tuple[ZooNetwork, ...]:
    """The entries of an index file."""
    entries: list[dict[str, Any]] = read_json(path)["networks"]
    return tuple(ZooNetwork(**{**entry, "transforms": tuple(entry["transforms"])}) for entry in entries)


@cache
def _read(path: Path) -> tuple[ZooNetwork, ...]:
    return read_index(path)
