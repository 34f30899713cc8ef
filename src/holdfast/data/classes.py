"""The order of classes: which output of a network belongs to which class of the data."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from holdfast.data.dataset import Dataset
from holdfast.errors import DataError, expected

MAX_BYTES = 16 << 20


def read_class_names(path: Path) -> tuple[str, ...]:
    """Class names in the order of the outputs: one per line, or JSON (a list, or an object index -> name)."""
    if not path.is_file():
        raise DataError(f"expected a file of class names at {path}, found none.")
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"expected at most {MAX_BYTES} bytes of class names in {path}, found {path.stat().st_size}.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = _from_json(json.loads(text)) if path.suffix == ".json" else _lines(text)
    except (UnicodeDecodeError, ValueError, RecursionError):
        fix = "write one name per line, or a JSON list"
        raise DataError(
            f"expected class names in the order of the outputs in {path}, found something else; {fix}."
        ) from None
    twice = sorted({name for name in found if found.count(name) > 1}) if len(set(found)) < len(found) else []
    if twice or len(found) < 2:
        got = f"{twice[0]!r} twice" if twice else f"{len(found)} names"
        raise DataError(f"expected at least two different class names in {path}, found {got}.")
    return found


def ordered_like(data: Dataset, class_names: Sequence[str]) -> Dataset:
    """The data with labels that count in `class_names`, found by the name of each class.

    Names match if they are equal, or equal but for capitals, spaces, hyphens and underscores, or if one of several
    names separated by commas matches, as in the labels of ImageNet ("tench, Tinca tinca"). Classes that are only
    numbers, 0 to K - 1, keep their labels unless the names are numbers, too.

    >>> from holdfast.data import from_tensors
    >>> x, y = torch.zeros(2, 1, 2, 2), torch.tensor([0, 1])
    >>> ordered_like(from_tensors(x, y, class_names=["cat", "dog"]), ["Dog", "mouse", "Cat"]).y.tolist()
    [2, 0]
    """
    names = tuple(class_names)
    places = _places(names)
    used = sorted(set(data.y.tolist()))
    unknown = [data.class_names[label] for label in used if _plain(data.class_names[label]) not in places]
    if unknown and is_numbered(data.class_names) and data.num_classes <= len(names):
        return replace(data, class_names=names)  # the labels are numbers of outputs already
    if unknown:
        near = difflib.get_close_matches(unknown[0], names, n=1, cutoff=0.4)
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        hint = f"did you mean {near[0]!r}? " if near else ""
        fix = f"{hint}rename the classes, or give the order of the outputs with classes=FILE"
        raise expected(f"classes of the network's ({_first(names)})", got=f"{unknown[0]!r}{more}", fix=fix)
    table = torch.zeros(data.num_classes, dtype=torch.int64)
    for label in used:
        table[label] = places[_plain(data.class_names[label])]
    return replace(data, y=table[data.y], class_names=names)


def fit_to_outputs(data: Dataset, outputs: int) -> tuple[Dataset, tuple[str, ...]]:
    """The data with labels that are outputs of a network with `outputs` of them, and notes; raises if they cannot be.

    With fewer classes than outputs the labels are only known if the classes are numbers, as those of an `.npz` file
    without names or of folders called 0, 7, 12.
    """
    count, names = data.num_classes, data.class_names
    shown = _first(names)
    if count > outputs:
        without = sorted(set(range(count)) - set(data.y.tolist()))
        fix = f"leave out the classes that the network does not know, or build it with num_classes={count}"
        if without:
            fix = f"delete the class folders without images ({_first([names[at] for at in without])}), {fix}"
        raise expected(f"at most {outputs} classes, one per output of the network", got=f"{count} ({shown})", fix=fix)
    if count == outputs:
        return data, _order_notes(names)
    if is_numbered(names):
        note = f"the network has {outputs} outputs and the data {count} classes, which are taken as the first {count}"
        return data, (note,)
    if all(name.isdecimal() and int(name) < outputs for name in names):
        places = torch.tensor([int(name) for name in names])
        every = tuple(map(str, range(outputs)))
        note = f"the names of the classes are numbers and are taken as places among the {outputs} outputs"
        return replace(data, y=places[data.y], class_names=every), (note,)
    fix = (
        "name all classes in the order of the outputs with classes=FILE, or explain predictions with labels='predicted'"
    )
    raise expected(f"a class for each of the {outputs} outputs of the network", got=f"{count} ({shown})", fix=fix)


def is_numbered(names: Sequence[str]) -> bool:
    """Whether the names are only the numbers of the classes.

    >>> is_numbered(["0", "1"]), is_numbered(["0", "10"])
    (True, False)
    """
    return all(name == str(at) for at, name in enumerate(names))


def _order_notes(names: Sequence[str]) -> tuple[str, ...]:
    """A note about numbers in alphabetical order, in which 10 comes before 2."""
    if not all(name.isdecimal() for name in names) or list(names) == sorted(names, key=int):
        return ()
    return (f"the classes are numbers in alphabetical order ({_first(names)}); classes=FILE gives another order",)


def _first(names: Sequence[str]) -> str:
    """The first few names, for messages."""
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _places(names: Sequence[str]) -> dict[str, int]:
    """Plain name -> index; full names win over single names of a list, and earlier classes over later ones."""
    found: dict[str, int] = {}
    for at, name in enumerate(names):
        found.setdefault(_plain(name), at)
    for at, name in enumerate(names):
        for part in name.split(","):
            found.setdefault(_plain(part), at)
    return found


def _plain(name: str) -> str:
    """A name without capitals and separators.

    >>> _plain("Great_white-shark")
    'great white shark'
    """
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _from_json(content: Any) -> tuple[str, ...]:
    if isinstance(content, Mapping):  # {"0": "cat", "1": "dog"}, or with lists: {"0": ["n02123045", "tabby"]}
        content = [content[str(at)] for at in range(len(content))] if "0" in content else None
    if not isinstance(content, list):
        raise ValueError("no list")
    names = [", ".join(map(str, name)) if isinstance(name, list) else name for name in content]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("not names")
    return tuple(names)
