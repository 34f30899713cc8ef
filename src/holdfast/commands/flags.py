"""Errors of the Python interface in the words of the command line: `--holdout 0.2` instead of `holdout=0.2`."""

import re

_DATA = {
    name: f"--data.options.{name}" for name in ("holdout", "size", "crop", "layout", "quantize", "skip_unreadable")
}
_SHAPE = ("num_classes", "in_channels", "image_size")
_LIMITS = {"limit": "--limit", "pgd_limit": "--pgd-limit", "strongest_limit": "--strongest-limit"}

FLAGS: dict[str, dict[str, str]] = {
    "audit": {
        **{
            name: f"--{name}"
            for name in (
                *("data", "eps", "mean", "std", "normalize", "size", "crop", "split", "holdout", "labels", "classes"),
                *("channels", "layout", "quantize", "output", "minutes", "map", "weights", "limit"),
                *("steps", "passes", "attacks"),
            )
        },
        **{name: f"--model-args {name}=" for name in _SHAPE},
        "network": "--builder",
        "eval_k": "--k",
        "transforms": "--channels",
    },
    "harden": {
        **{
            name: f"--{name.replace('_', '-')}"
            for name in (
                *(
                    "data",
                    "eps",
                    "mean",
                    "std",
                    "normalize",
                    "size",
                    "crop",
                    "holdout",
                    "classes",
                    "channels",
                    "layout",
                ),
                *("quantize", "output", "minutes", "weights", "method", "max_accuracy_drop", "steps", "lr", "limit"),
                *("passes", "batch_size", "batch_norm", "resume"),
            )
        },
        **{name: f"--model-args {name}=" for name in _SHAPE},
        "map": "--maps",
        "network": "--builder",
        "transforms": "--channels",
    },
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
    *("steps", "passes", "map", "attacks", "lr", "batch_size"),
)
"""Arguments that messages name without a value, as in "expected eps <= 1"."""

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
    if command == "train":
        message = _RADIUS_KEY.sub(r"expected --\1 <=", message)
    names = "|".join(options)
    message = re.sub(rf"(?<![\w-])({names})=({_VALUE})", lambda found: _flag(options, *found.groups()), message)
    plain = "|".join(name for name in _PLAIN if name in options)
    if not plain:
        return message
    return re.sub(rf"\b(expected|got|and|or) ({plain})\b", lambda found: f"{found[1]} {options[found[2]]}", message)


def _flag(options: dict[str, str], name: str, value: str) -> str:
    flag, bare = options[name], value.strip("'\"")
    if value == "(height, width)":
        bare = "N"
    if value == "True":
        return flag if flag in ("--quantize", "--resume") else f"{flag} true"
    return f"{flag}{bare}" if flag.endswith("=") else f"{flag} {bare}"
