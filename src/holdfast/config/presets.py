"""Presets by name, `dataset/method[:tier]`: each dataset has a file in `presets/`, in which they build on each other.

A file has tables `[part.NAME]`, which other tables build on, and `[preset]`, with a line for each `"method:tier"`. Both
are partial configs; `base` lists what they build on, from left to right: parts, presets of the same file (with a colon
in the name), or either of another file (`file/name`). A file that `extends` another has all its parts and presets too,
and replaces those that it names itself.

A method of `common.toml` that says what it `uses` needs no line per dataset: every dataset with a `[tier.NAME]` table
has a preset of it, which builds on the tier's `base`, on the tier's parts for what the method uses, and on the method.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from holdfast.config.merge import merge
from holdfast.config.problems import nearest, validated
from holdfast.config.schema import RunConfig
from holdfast.errors import InputError, expected

TIERS = {
    "paper": "the values of the paper",
    "released-code": "the choices of the authors' code where they differ",
    "rar-config": "the settings of the public code of RAR, on which both build",
    "cpu": "the same code path with fewer steps and points, for two cores",
}
"""Tier -> what it is; the first one that a preset has is its default."""

DATASETS = ("digits", "mnist", "fashion-mnist", "gtsrb", "flower17", "fashion-resnet", "gtsrb-wrn", "flower17-wrn")


def run_name(method: str, seed: int) -> str:
    """The folder of a method's run among those of its dataset.

    >>> run_name("erar", 0), run_name("erar", 1)
    ('erar', 'erar-seed1')
    """
    return method if seed == 0 else f"{method}-seed{seed}"


def preset_names() -> tuple[str, ...]:
    """Every preset with its tier, dataset by dataset.

    >>> "mnist/erar:paper" in preset_names()
    True
    """
    return tuple(f"{dataset}/{name}" for dataset in DATASETS for name in _presets(dataset))


def find_preset(name: str) -> str:
    """The full name, with the default tier if none is given; the error for an unknown one names the nearest.

    >>> find_preset("mnist/erar")
    'mnist/erar:paper'
    """
    known = {_same(full): full for full in preset_names()}
    wanted = [name] if ":" in name else [f"{name}:{tier}" for tier in TIERS]
    found = next((known[_same(full)] for full in wanted if _same(full) in known), None)
    if found is None:
        raise _unknown(name)
    return found


def preset_values(name: str) -> dict[str, Any]:
    """The values of a preset, nothing validated."""
    full = find_preset(name)
    dataset, _, entry = full.partition("/")
    return {"preset": full} | _resolve(dataset, entry)


def load_preset(name: str) -> RunConfig:
    """The config of a preset."""
    return validated(RunConfig, preset_values(name))


def _resolve(file: str, name: str) -> dict[str, Any]:
    """A part or preset with everything it builds on."""
    entry = dict(_entry(file, name))
    entry.pop("uses", None)
    bases = entry.pop("base", [])
    values: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        other, slash, inner = base.partition("/")
        values = merge(values, _resolve(other, inner) if slash else _resolve(file, base))
    return merge(values, entry)


def _entry(file: str, name: str) -> Mapping[str, Any]:
    tables = _presets(file) if ":" in name else _file(file)["part"]
    if name not in tables:
        raise expected(f"a base in presets/{file}.toml", got=repr(name), fix=f"the nearest is {nearest(name, tables)}")
    entry: Mapping[str, Any] = tables[name]
    return entry


def _presets(dataset: str) -> dict[str, Any]:
    """The presets of a dataset: those that follow from the methods of common.toml, and those that its file names."""
    file = _file(dataset)
    found: dict[str, Any] = {}
    for tier, offers in file["tier"].items():
        for method, entry in _file("common")["part"].items():
            uses = entry.get("uses")
            if uses is not None and all(part in offers for part in uses):
                bases = [base for part in ("base", *uses) for base in offers[part]]
                found[f"{method}:{tier}"] = {"base": [*bases, f"common/{method}"]}
    found |= file["preset"]
    return found


@cache
def _file(name: str) -> dict[str, Any]:
    own = tomllib.loads((files("holdfast") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))
    other = _file(own["extends"]) if "extends" in own else {}
    return {kind: {**other.get(kind, {}), **own.get(kind, {})} for kind in ("part", "preset", "tier")}


def _same(name: str) -> str:
    """Hyphen and underscore are the same in a name: erar-plus is erar_plus."""
    return name.lower().replace("_", "-")


def _unknown(name: str) -> InputError:
    known, (plain, colon, _) = preset_names(), name.partition(":")
    best = nearest(plain, dict.fromkeys(full.partition(":")[0] for full in known))
    if colon:
        best = nearest(name, [full for full in known if full.startswith(f"{best}:")])
    return expected(
        "a preset dataset/method[:tier]", got=repr(name), fix=f"the nearest is {best}; `holdfast presets` lists them"
    )
