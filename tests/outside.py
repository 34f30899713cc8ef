"""Packages that nobody here wrote and that need help to be imported beside the CPU build of PyTorch."""

import warnings
from functools import cache
from types import ModuleType

import pytest
import torch

_LIBRARIES = []  # a library is unregistered when it is collected


@cache
def _operators_of_torchvision() -> None:
    """Declare the compiled operators that torchvision's Python code refers to while it is imported; none is run."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)


def outside(package: str) -> ModuleType:
    """The package, or a skipped test if it is not installed."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    there = find_spec("torchvision") is not None  # transformers imports it where it is installed
    if not there and package in ("timm", "facenet_pytorch"):
        pytest.skip(f"torchvision, which {package} needs, is not installed here")
    if there and not hasattr(torch.ops.torchvision, "nms"):
        _operators_of_torchvision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these packages warn about while loading is theirs
        return import_module(package)
