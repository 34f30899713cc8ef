"""Single keys changed from the command line: `--train.steps 500`, `--method.settings.eps 8/255`, `--train.amp`."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from holdfast.config.aliases import current_key
from holdfast.config.merge import CHOOSERS, merge
from holdfast.config.problems import choices, keys
from holdfast.config.schema import RunConfig
from holdfast.errors import expected

Override = tuple[str, str]
"""Full name of a key and the text of its value."""

MOST_LISTS = 50
"""Opening brackets in one value; a reader of lists in lists in lists runs out of stack."""


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[Override]]:
    """The words of a command line without `--section.key value`, and those overrides; a key without value is true.

    >>> split_overrides(["mnist/erar", "--train.steps", "500", "--train.amp", "--out", "runs/a"])
    (['mnist/erar', '--out', 'runs/a'], [('train.steps', '500'), ('train.amp', 'true')])
    """
    rest: list[str] = []
    overrides: list[Override] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--") or "." not in name:
            rest.append(word)
            continue
        if not equals:
            value = waiting.pop(0) if waiting and not waiting[0].startswith("--") else "true"
        overrides.append((name.removeprefix("--"), value))
    return rest, overrides


def apply_overrides(values: Mapping[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """`values` with the overrides on top; `none` takes a key out, and `batch-size` is `batch_size`.

    Unknown keys are left for the schema.
    What names a dataset, network, method or kind comes first, since it clears the settings of the one before.
    """
    changed = dict(values)
    overrides = [(current_key(key.replace("-", "_")), text) for key, text in overrides]
    for key, text in sorted(overrides, key=lambda override: override[0].split(".")[-1] not in CHOOSERS):
        change: Any = None if text.lower() == "none" else _typed(key, text)
        for part in reversed(key.split(".")):
            change = {part: change}
        changed = merge(changed, change)
    return changed


def parse_arguments(
    words: Sequence[str], option: str = "--model-args", example: str = "num_classes=10 width=2"
) -> dict[str, Any]:
    """The arguments `key=value` of an option, each value as what it is: a truth value, number, list or text.

    >>> parse_arguments(["num_classes=10", "pretrained=false", "name=small"])
    {'num_classes': 10, 'pretrained': False, 'name': 'small'}
    """
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise expected(f"{option} as key=value", got=repr(word), fix=f"write for example {option} {example}")
        found[key] = None if value.lower() == "none" else _literal(value)
    return found


def _typed(key: str, text: str) -> Any:
    """The text as the type that the schema has for the key; what does not fit stays text, for the schema to refuse."""
    kinds = choices(keys(RunConfig).get(key))
    if str in kinds or any(get_origin(kind) is Literal for kind in kinds):
        return text
    entries = next((get_args(kind) for kind in kinds if get_origin(kind) is tuple), None)
    if entries and str not in entries:
        return [_literal(part.strip()) for part in text.strip("[] ").split(",")]
    return [text] if entries and not text.startswith("[") else _literal(text)


def _literal(text: str) -> Any:
    """A truth value, number or TOML list as what it is, anything else as text.

    >>> [_literal(text) for text in ("500", "1e-4", "true", "[1, 2]", "l1", "8/255")]
    [500, 0.0001, True, [1, 2], 'l1', '8/255']
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float, _toml):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _toml(text: str) -> Any:
    """A TOML list; a ValueError for anything else, and for lists in lists that no setting is made of."""
    if not text.startswith("[") or text.count("[") > MOST_LISTS:
        raise ValueError(text)
    return tomllib.loads(f"value = {text}")["value"]
