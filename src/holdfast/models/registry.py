"""The registry of networks. To add one, write a file with the module and add an entry to `_NETWORKS`."""

import difflib
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from holdfast.errors import InputError, expected
from holdfast.models.networks.digits_cnn import DigitsCNN
from holdfast.models.networks.paper_cnn import PaperCNN
from holdfast.models.networks.paper_resnet import PaperResNet
from holdfast.models.networks.wide_resnet import WideResNet


@dataclass(frozen=True)
class NetworkSpec:
    """A network's constructor and the images it was designed for.

    Image sides must be divisible by `sides_divide_by`. `pattern` is a regular expression for a family of names; its
    named groups are integer options of the constructor.
    """

    network: Callable[..., nn.Module]
    in_channels: int
    image_size: int
    sides_divide_by: int = 1
    pattern: str = "(?!)"  # matches nothing


_NETWORKS = {
    "digits-cnn": NetworkSpec(DigitsCNN, in_channels=1, image_size=8, sides_divide_by=2),
    "paper-cnn": NetworkSpec(PaperCNN, in_channels=1, image_size=28, sides_divide_by=4),
    "paper-resnet": NetworkSpec(PaperResNet, in_channels=3, image_size=32, sides_divide_by=4),
    "wrn-28-10": NetworkSpec(WideResNet, in_channels=3, image_size=32, pattern=r"wrn-(?P<depth>\d+)-(?P<width>\d+)"),
}
_COMMON = ("num_classes", "in_channels", "image_size")


def names() -> tuple[str, ...]:
    """The names that `build` accepts; it also accepts any 'wrn-<depth>-<width>'.

    >>> names()
    ('digits-cnn', 'paper-cnn', 'paper-resnet', 'wrn-28-10')
    """
    return tuple(_NETWORKS)


def build(
    name: str,
    *,
    num_classes: int = 10,
    in_channels: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """Build the network `name` for `num_classes` classes, on the CPU, in training mode.

    `in_channels` and `image_size` (one side, or height and width) default to the images the network was designed for.
    `options` are passed to its constructor. With a `seed` the weights depend only on the arguments, and PyTorch's
    global random state is left unchanged; without a seed they are drawn from that state.

    >>> build("digits-cnn", num_classes=10, seed=0)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    spec, fixed = _find(name)
    common = {
        "num_classes": _whole("num_classes", num_classes, least=2),
        "in_channels": _whole("in_channels", spec.in_channels if in_channels is None else in_channels),
        "image_size": _sides(name, spec, spec.image_size if image_size is None else image_size),
    }
    accepted = inspect.signature(spec.network).parameters
    _check_options(name, options, [key for key in accepted if key not in (*fixed, *_COMMON)])
    with _random_state(None if seed is None else _whole("seed", seed, least=0)), torch.device("cpu"):
        return spec.network(**{key: common[key] for key in _COMMON if key in accepted}, **fixed, **options)


def _find(name: str) -> tuple[NetworkSpec, dict[str, int]]:
    """The network of that name, and the options that the name contains."""
    for known, spec in _NETWORKS.items():
        match = re.fullmatch(spec.pattern, name)
        if match or name == known:
            return spec, {key: int(value) for key, value in match.groupdict().items()} if match else {}
    raise _unknown("a network", name, names())


def _check_options(name: str, options: Iterable[str], own: list[str]) -> None:
    for option in options:
        if option not in own:
            raise _unknown(f"an option of {name}", option, (*_COMMON, "seed", *own))


def _unknown(what: str, got: str, valid: Iterable[str]) -> InputError:
    """Build the error for an unknown name, with the nearest valid one."""
    valid = tuple(valid)
    nearest = difflib.get_close_matches(got, valid, n=1, cutoff=0.0)[0]
    return expected(f"{what} among {', '.join(valid)}", got=repr(got), fix=f"the nearest name is {nearest!r}")


def _whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise expected(f"{name} to be a whole number", got=repr(value)) from None
    if number < least:
        raise expected(f"{name} >= {least}", got=number)
    return number


def _sides(name: str, spec: NetworkSpec, image_size: Any) -> tuple[int, int]:
    """Height and width, checked against the requirements of the network."""
    sides = tuple(image_size) if isinstance(image_size, tuple | list) else (image_size, image_size)
    if len(sides) != 2:
        raise expected("image_size to be one side or (height, width)", got=image_size)
    height, width = (_whole("image_size", side) for side in sides)
    if height % spec.sides_divide_by or width % spec.sides_divide_by:
        raise expected(f"image sides divisible by {spec.sides_divide_by} for {name}", got=image_size)
    return height, width


@contextmanager
def _random_state(seed: int | None) -> Iterator[None]:
    """Seed PyTorch's CPU generator inside the block; without a seed, leave it alone."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
