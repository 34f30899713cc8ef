"""Packages that nobody here wrote and that need help to be imported beside the CPU build of PyTorch."""

import sys
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
    if not there and package == "timm":
        pytest.skip(f"torchvision, which {package} needs, is not installed here")
    if there and not hasattr(torch.ops.torchvision, "nms"):
        _operators_of_torchvision()
    stand_ins = _torchvision_for_facenet() if package == "facenet_pytorch" and not there else {}
    sys.modules.update(stand_ins)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what these packages warn about while loading is theirs
            return import_module(package)
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _torchvision_for_facenet() -> dict[str, ModuleType]:
    """Empty modules for two imports of facenet-pytorch, of its search for faces; its networks do not use them."""
    made = {name: ModuleType(f"torchvision{name}") for name in ("", ".transforms", ".ops", ".ops.boxes")}
    made[".transforms"].functional = made[".ops.boxes"].batched_nms = None  # type: ignore[attr-defined]
    return {module.__name__: module for module in made.values()}
