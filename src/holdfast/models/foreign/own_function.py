"""`package.module:function`: a function of the user's that builds the network."""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from torch import nn

from holdfast.errors import expected
from holdfast.models.foreign.built import Built, called, reason_of


def build_own(name: str, options: dict[str, Any], offered: dict[str, Any], seed: int) -> Built:
    """Call the function with `options`, and with those of num_classes, in_channels and image_size that it accepts.

    The name may also be that of a class, or of a network that the module has built itself.
    """
    with working_folder_importable():
        make = _imported(name)
        if isinstance(make, nn.Module):
            return Built(net=make)
        if not callable(make):
            raise expected(f"{name} to be a function that builds a network", got=type(make).__name__)
        accepted = _parameters(make)
        net = called(name, make, {key: value for key, value in offered.items() if key in accepted} | options, seed)
    if not isinstance(net, nn.Module):
        raise expected(f"{name} to return a torch.nn.Module", got=type(net).__name__)
    return Built(net=net)


def _parameters(make: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # some built-in callables have no signature
        return ()


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or "/" in module:
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        raise expected("a function package.module:function", got=name, fix=f"write {dotted}:{attribute or 'build'}")
    try:
        found = import_module(module)
    except Exception as error:
        raise _import_error(name, module, error) from error
    if not hasattr(found, attribute):
        names = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
        fix = f"{module} has {', '.join(names[:8]) or 'no functions'}"
        raise expected("a function package.module:function", got=f"{name}, which {module} does not have", fix=fix)
    return getattr(found, attribute)


def _import_error(name: str, module: str, error: Exception) -> Exception:
    absent = (
        isinstance(error, ModuleNotFoundError) and error.name is not None and f"{module}.".startswith(f"{error.name}.")
    )
    if absent or (isinstance(error, ValueError) and not module):
        fix = "run from the folder that contains the package, or install it"
        return expected("a function package.module:function", got=f"{name} ({reason_of(error)})", fix=fix)
    got = f"{type(error).__name__}: {reason_of(error)}"
    return expected(f"a module {module} that can be imported", got=got, fix=f"try: python -c 'import {module}'")


@contextmanager
def working_folder_importable() -> Iterator[None]:
    """Put the working directory on `sys.path` inside the block, as `python -m` does."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
