"""The sources of networks from elsewhere. To add one, write a function like those here and add its prefix."""

from collections.abc import Callable
from typing import Any

from holdfast.models.foreign.built import Built
from holdfast.models.foreign.own_function import build_own
from holdfast.models.foreign.packages import build_timm, build_torchvision
from holdfast.models.foreign.transformers_folder import build_transformers

SOURCES: dict[str, Callable[[str, dict[str, Any], dict[str, Any], int], Built]] = {
    "timm": build_timm,
    "torchvision": build_torchvision,
    "hf": build_transformers,
}
"""Word before the colon -> builder `(name, options, offered shape, seed)`; other words are modules of the user's."""


def is_foreign(name: str) -> bool:
    """Whether a name is one of a network from elsewhere: `package.module:function`, `timm:NAME`, ...

    >>> is_foreign("nets:small"), is_foreign("paper-cnn")
    (True, False)
    """
    return ":" in name


def build_foreign(name: str, *, options: dict[str, Any], offered: dict[str, Any], seed: int) -> Built:
    """Build a network from elsewhere, its random weights drawn with the seed.

    `options` are passed as they are; `offered` (num_classes, in_channels, image_size) only where they are accepted.
    """
    return SOURCES.get(name.partition(":")[0], build_own)(name, options, offered, seed)
