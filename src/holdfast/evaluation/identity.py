"""Identity of an evaluation: checks that a resumed evaluation uses the same network, data, seed and attacks.

The settings of an attack are compared as a tree of class and field names without the fields at their default value. A
field added in a later version therefore changes nothing. `ALIASES` maps renamed classes, so older folders can resume.
"""

import ast
import dataclasses
import hashlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.data.dataset import Dataset
from holdfast.errors import DataError
from holdfast.models.checksum import network_checksum
from holdfast.runs.rows import Examples
from holdfast.storage.json_files import read_json, words_of, write_json_atomic
from holdfast.types import Model

FILE = "measured.json"

ATTACK = "attack "
"""What the settings of an attack begin with in that file, before its name."""

ALIASES = {"ExplanationAttack": "PGDExplanationAttack", "QuietBelow": "DeadZone", "NarrowFilters": "FilterSpread"}
"""Class name in older files -> current name."""


def claim(folder: Path, parts: dict[str, Any], *, again: bool = False) -> None:
    """Record what this evaluation measures in `folder`; raise DataError if the folder holds rows of another one.

    With `again`, the rows of attacks on the maps (and of APGD) that had other settings are deleted instead.
    """
    path = folder / FILE
    orphans = [name for name in ("examples.csv", "accuracy.csv", "apgd.csv") if (folder / name).exists()]
    if not path.exists() and not orphans:
        write_json_atomic(path, parts)
        return
    before = read_json(path) if path.exists() else dict.fromkeys(parts)
    changed = [name for name in parts if name in before and not same(before[name], parts[name])]
    if again and all(map(_can_be_dropped, changed)):
        _drop(folder, changed)
        changed = []
    if not changed:
        write_json_atomic(path, before | parts)
    else:
        raise DataError(
            f"expected {folder} to hold rows of this evaluation, got rows with another {', '.join(changed)}; "
            f"use a new folder, or {_fix(changed)}."
        )


def _can_be_dropped(name: str) -> bool:
    """Whether no other rows depend on the settings; every row says whether PGD succeeded, so PGD is an exception."""
    return name.startswith(ATTACK) and name != f"{ATTACK}pgd"


def _drop(folder: Path, changed: list[str]) -> None:
    """Delete what was measured with other settings; the rows go first, so that an interrupted call can be repeated."""
    attacks = {name.removeprefix(ATTACK) for name in changed}
    if "apgd" in attacks:
        (folder / "apgd.csv").unlink(missing_ok=True)
    if attacks - {"apgd"} and (folder / "examples.csv").exists():
        Examples(folder / "examples.csv").drop(attacks)


def _fix(changed: list[str]) -> str:
    if all(map(_can_be_dropped, changed)):
        return "replace the rows of these attacks in a run directory with `holdfast evaluate RUN --again`"
    return f"delete examples.csv, accuracy.csv, apgd.csv and {FILE} there"


def identity(model: Model, data: Dataset, attacks: dict[str, Any], seed: int) -> dict[str, Any]:
    """Checksums of the network and the images, the seed, and the settings of every attack as text."""
    return {
        "network": network_checksum(model),
        "images": _images(data),
        "seed": seed,
        **{f"{ATTACK}{name}": words_of(attack) for name, attack in attacks.items()},
    }


def same(before: Any, now: Any) -> bool:
    """Whether two descriptions are equal after renamed classes and default values are resolved."""
    if before == now:
        return True
    if not isinstance(before, str) or not isinstance(now, str):
        return False
    trees = [_tree(text) for text in (before, now)]
    return trees[0] is not None and trees[0] == trees[1]


def _images(data: Dataset) -> str:
    digest = hashlib.sha256(data.y.numpy().tobytes() + data.ids.numpy().tobytes())
    pixels = data.checksum or hashlib.sha256(data.x.contiguous().numpy().tobytes()).hexdigest()
    return f"{pixels} {digest.hexdigest()}"


def _tree(text: str) -> Any:
    """A description as nested tuples with today's names and without defaults; None for text that is not one."""
    try:
        return _simplified(_parsed(text))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _parsed(text: str) -> ast.expr:
    """The text of settings as a syntax tree; functions and objects, such as <function f>, become strings."""
    quoted = re.sub(r"<[^<>]*>", lambda match: repr(match.group(0).split(".")[-1]), text)
    return ast.parse(quoted, mode="eval").body


def _simplified(node: ast.AST) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name = ALIASES.get(node.func.id, node.func.id)
        fields = {keyword.arg: _simplified(keyword.value) for keyword in node.keywords}
        defaults = _defaults().get(name, {})
        kept = {k: v for k, v in fields.items() if k not in defaults or _simplified(defaults[k]) != v}
        return (name, tuple(_simplified(part) for part in node.args), tuple(sorted(kept.items(), key=str)))
    if isinstance(node, ast.Dict):
        return tuple((_simplified(k), _simplified(v)) for k, v in zip(node.keys, node.values, strict=True) if k)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_simplified(part) for part in node.elts)
    return ast.unparse(node)


@cache
def _defaults() -> dict[str, dict[str, ast.expr]]:
    """Class name -> field -> default, for every settings class that a description may contain."""
    found: dict[str, dict[str, ast.expr]] = {}
    for kind in _settings_classes():
        plain = {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}
        found[kind.__name__] = {name: _parsed(words_of(value)) for name, value in plain.items()}
    return found


def _settings_classes() -> Iterator[type]:
    from holdfast import attacks, attribution, losses

    for module in (attacks, attribution, losses):
        for thing in vars(module).values():
            if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
                yield thing
