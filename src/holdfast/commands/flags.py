"""Errors of the Python interface in the words of the command line: `--holdout 0.2` instead of `holdout=0.2`."""

import re
from collections.abc import Iterable

_DATA = {
    name: f"--data.options.{name}" for name in ("holdout", "size", "crop", "layout", "quantize", "skip_unreadable")
}
_SHAPE = ("num_classes", "in_channels", "image_size")
_LIMITS = {"limit": "--limit", "pgd_limit": "--pgd-limit", "strongest_limit": "--strongest-limit"}

_OWN = {
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("data", "weights", "weights_key", "builder", "output", "mean", "std", "normalize"),
            *("size", "crop", "channels", "classes", "layout", "quantize", "holdout"),
            *("eps", "minutes", "steps", "passes", "limit", "layer"),
        )
    },
    **{name: f"--model-args {name}=" for name in _SHAPE},
    "arguments": "--model-args",
    "network": "--builder",
    "transforms": "--channels",
}
"""Options that `audit` and `harden` share."""

_METHOD = ("method", "max_accuracy_drop", "lr", "batch_size", "batch_norm", "resume", "strong", "seed")

FLAGS: dict[str, dict[str, str]] = {
    "audit": {
        **_OWN,
        **{name: f"--{name}" for name in ("split", "labels", "attacks")},
        "map": "--maps",
        "ig_steps": "--ig-steps",
        "search_ig_steps": "--search-ig-steps",
        "eval_k": "--k",
    },
    "harden": {**_OWN, **{name: f"--{name.replace('_', '-')}" for name in _METHOD}, "map": "--maps"},
    "train": {
        **_DATA,
        **{name: f"--model.{name}" for name in (*_SHAPE, "output", "mean", "std")},
        "network": "--model",
        "transforms": "--data.transforms",
    },
    "evaluate": {"network": "--model", **_LIMITS},
    "reproduce": _LIMITS,
}
"""Command -> Python argument -> its option."""

_PLAIN = (
    *("eps", "mean", "std", "normalize", "minutes", "labels", "holdout", "eval_k", *_LIMITS),
    *("steps", "passes", "map", "attacks", "lr", "batch_size", "batch_norm", "method", "max_accuracy_drop"),
    *("size", "crop", "split", "layout", "layer", "ig_steps", "search_ig_steps"),
)
"""Arguments that messages name without a value, as in "expected eps <= 1"."""

_LISTED = (*_PLAIN, "arguments", "output")
"""Arguments that may be listed after "got"."""

_PHRASES = {
    "expected maps with different names": "expected --maps with different names",
    "a builder only with": "--builder only with",
    "a key only for": "--weights-key only for",
    "only weights and a builder with": "only --weights, --weights-key and --builder with",
    "pass size=N, crop=N to": "pass --size N --crop N to",
    "name the layer to use, one of": "name the layer to use with --layer, one of",
}
"""What `audit` and `harden` say in place of words of the Python interface."""

_RADIUS_KEY = re.compile(r"expected ((?:method|evaluate)\.[\w.]*eps) <=")

_VALUE = r"'[^']*'|\"[^\"]*\"|\([^)]*\)|-?\d+(?:\.\d+)?(?:e-?\d+)?|[\w/:]+"


def as_flags(message: str, command: str) -> str:
    """The message with the options of `command` in place of Python arguments.

    >>> as_flags("expected a holdout, got none; pass holdout=0.2 or split='all'.", "audit")
    'expected a holdout, got none; pass --holdout 0.2 or --split all.'
    >>> as_flags("expected eps <= 1, got 8.", "audit")
    'expected --eps <= 1, got 8.'
    >>> as_flags("expected method.settings.eps <= 1, got 8.", "train")
    'expected --method.settings.eps <= 1, got 8.'
    """
    options = FLAGS.get(command)
    if options is None:
        return message
    if "split" not in options:
        message = message.replace(", or split='all' to use everything", "")
    if "labels" not in options:
        message = message.replace(", or explain the predictions with labels='predicted'", "")
    if command == "train":
        message = _RADIUS_KEY.sub(r"expected --\1 <=", message)
    message = message.replace("its arguments as key=value", "its arguments as --model-args key=value")
    if command in ("audit", "harden"):
        for words, flags in _PHRASES.items():
            message = message.replace(words, flags)
    if command == "harden":
        message = _of_hardening(message, options)
    names = "|".join(options)
    message = re.sub(rf"(?<![\w-])({names})=({_VALUE})", lambda found: _flag(options, *found.groups()), message)
    return _without_values(message, options)


def as_typed(message: str, words: Iterable[str]) -> str:
    """The message with `--map` for `--maps` if that is what the user typed.

    >>> as_typed("expected --maps to be one of ig, got 'lime'.", ["audit", "--map", "lime"])
    "expected --map to be one of ig, got 'lime'."
    """
    typed = {word.partition("=")[0] for word in words}
    return re.sub(r"--maps\b", "--map", message) if "--map" in typed else message


def _without_values(message: str, options: dict[str, str]) -> str:
    """The message with options for arguments that it names without a value, alone or in a list after "got"."""
    listed, plain = ("|".join(name for name in names if name in options) for names in (_LISTED, _PLAIN))
    if not plain:
        return message
    message = re.sub(
        rf"\bgot ((?:{listed})(?:, (?:{listed}))*)(?=[;.])",
        lambda found: f"got {', '.join(options[name] for name in found[1].split(', '))}",
        message,
    )
    before = r"\b(?:expected|got|and|or|same)|<="
    return re.sub(rf"({before}) ({plain})\b(?!\.\w)", lambda found: f"{found[1]} {options[found[2]]}", message)


def _of_hardening(message: str, options: dict[str, str]) -> str:
    """The settings of a hardening that was begun, and those of its method.

    >>> _of_hardening("expected settings.eps = 0.1, as at the start of the run, got 0.2.", {"eps": "--eps"})
    'expected --eps 0.1, as at the start of the run, got 0.2.'
    """
    share = r"([\d.]+(?:e-\d+)?)"
    points = re.fullmatch(rf"(expected )settings\.max_accuracy_drop = {share}(, .* got ){share}(;.*)", message)
    if points:
        was, now = (f"{100 * float(part):g}" for part in points.group(2, 4))
        return f"{points[1]}--max-accuracy-drop {was}{points[3]}{now}{points[5]}"
    message = re.sub(r"\bexpected settings of (\w+) among", r"expected --method-args of \1 among", message)
    message = re.sub(r"\bsettings\.method_settings\.(\w+) = ", r"--method-args \1=", message)
    known = "|".join(options)
    return re.sub(rf"\bsettings\.({known}) = ", lambda found: f"{options[found[1]]} ", message)


def _flag(options: dict[str, str], name: str, value: str) -> str:
    flag, bare = options[name], value.strip("'\"")
    if value == "(height, width)":
        bare = "N"
    if value == "True":
        return flag if flag in ("--quantize", "--resume") else f"{flag} true"
    return f"{flag}{bare}" if flag.endswith("=") else f"{flag} {bare}"
