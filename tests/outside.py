"""Packages that nobody here wrote and that need help to be imported beside the CPU build of PyTorch."""

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch

BESIDE = Path(sys.prefix) / "outside"
"""Where `make test` installs packages that only these tests see: with torchvision among the others, transformers would
import it, too, and fail where its compiled operators do not load."""

_NOT_USED = {
    "facenet_pytorch": {
        "torchvision": (),
        "torchvision.transforms": ("functional",),
        "torchvision.ops": (),
        "torchvision.ops.boxes": ("batched_nms",),
    },
    "quantus": {"skimage": (), "skimage.segmentation": ("slic", "felzenszwalb")},
}
"""Package -> the modules that it imports for parts that no test uses, and the names that it takes from them."""

_LIBRARIES = []  # a library is unregistered when it is collected


def outside(package: str) -> ModuleType:
    """The package, or a skipped test if it is not installed."""
    if find_spec(package) is None and BESIDE.is_dir() and str(BESIDE) not in sys.path:
        sys.path.append(str(BESIDE))
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    stand_ins = _empty_modules(package)
    sys.modules.update(stand_ins)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what these packages warn about while loading is theirs
            if "torchvision" not in stand_ins:
                _complete_torchvision()
            return import_module(package)
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _complete_torchvision() -> None:
    """Declare the compiled operators that torchvision's Python code refers to, if they do not load; none is run."""
    if find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)


def _empty_modules(package: str) -> dict[str, ModuleType]:
    """Stand-ins for modules that the package imports and that are not installed."""
    made = {}
    for name, attributes in _NOT_USED.get(package, {}).items():
        if find_spec(name.partition(".")[0]) is None:
            made[name] = ModuleType(name)
            vars(made[name]).update(dict.fromkeys(attributes))
    return made
