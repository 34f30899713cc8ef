"""Build the network of a config, load weights into it, and load the network of a run directory.

Weights are read as safetensors; a weight file never causes code to be imported.
"""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.config import Network, config_from_file
from holdfast.errors import DataError, expected
from holdfast.experiment.layout import CONFIG, WEIGHTS
from holdfast.models import Classifier, SoftplusNetwork, build
from holdfast.training.checkpoint import read_weights
from holdfast.zoo import index as zoo
from holdfast.zoo.weights import fetch


def load(path: Path | str, *, network: nn.Module | str | None = None) -> Classifier:
    """Load the network of a run directory, or `zoo:NAME` of `hf.zoo.list()`, on the CPU, in evaluation mode.

    If the run trained a custom network, pass `network`: the module, or `package.module:function` that builds it. The
    name in the run's config is not imported. Weights stored in half precision are converted to float32.

    >>> import holdfast as hf
    >>> hf.load("zoo:gtsrb/madry")(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 43])
    """
    folder, weights = _in_the_zoo(path) if str(path).startswith(zoo.PREFIX) else (Path(path), Path(path))
    config = config_from_file(folder / CONFIG)
    own = ":" in config.model.name
    if own and network is None:
        fix = f"if you trust it, call load(..., network={config.model.name!r})"
        raise expected("network=, since the run trained a custom network", got="none", fix=fix)
    if isinstance(network, nn.Module):
        model = _wrapped(network, config.model)
    else:
        name = {} if network is None else {"name": network}
        model = build_model(config.model.model_copy(update=name), seed=config.seed)
    put_weights(model, weights)
    return model.eval()


def build_model(network: Network, *, seed: int) -> Classifier:
    """Build a registered or custom network, initialised from the seed and wrapped with its normalisation."""
    shape = {key: getattr(network, key) for key in ("num_classes", "in_channels", "image_size")}
    offered = {key: value for key, value in shape.items() if value is not None}
    if ":" in network.name:
        return _wrapped(_own_network(network, offered, seed), network)
    return _wrapped(build(network.name, **{**network.options, **offered, "seed": seed}), network)


def put_weights(model: Classifier, path: Path) -> None:
    """Load weights from a .safetensors file or run directory; tensor names are those of `model` or of `model.net`."""
    state = _read_weights(path / WEIGHTS if path.is_dir() else path)
    targets: tuple[nn.Module, ...] = (model, model.net)
    target = next((target for target in targets if target.state_dict().keys() == state.keys()), None)
    if target is None:
        missing, alien = sorted(model.net.state_dict().keys() - state.keys()), sorted(state.keys())
        got = f"{len(alien)} tensors ({', '.join(alien[:4])}, ...) in {path.name}"
        raise DataError(f"expected the tensors of this network ({', '.join(missing[:4])}, ...), got {got}.")
    try:
        target.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"the weights in {path.name} belong to another network: {reason}") from None


def _in_the_zoo(name: Path | str) -> tuple[Path, Path]:
    """The folder with the config, and the verified weight file, of a network of the zoo."""
    return zoo.find(str(name)).folder, fetch(str(name))


def _read_weights(file: Path) -> dict[str, Tensor]:
    if not file.exists():
        fix = "weights are written when training is finished; resume it with `holdfast train --out RUN --resume`"
        raise DataError(f"expected weights at {file}, got no such file; {fix}.")
    return read_weights(file)


def _wrapped(net: nn.Module, network: Network) -> Classifier:
    """Wrap a network with its normalisation and activation; a Classifier is returned as it is, since it has its own."""
    if not isinstance(net, Classifier):
        net = net if network.softplus is None else SoftplusNetwork(net, network.softplus)
        return Classifier(net, mean=network.mean, std=network.std)
    for key in ("mean", "std", "softplus"):
        if getattr(network, key) is not None:
            raise expected(f"no model.{key} for a network that is a Classifier", got="one", fix="remove it")
    return net


def _own_network(network: Network, offered: dict[str, Any], seed: int) -> nn.Module:
    """Call `package.module:function` with the options and with num_classes, in_channels, image_size if accepted."""
    with _this_folder_importable(), torch.random.fork_rng(devices=[]):
        make = _imported(network.name)
        accepted = inspect.signature(make).parameters
        torch.default_generator.manual_seed(seed)
        net = make(**{key: value for key, value in offered.items() if key in accepted}, **network.options)
    if not isinstance(net, nn.Module):
        raise expected(f"{network.name} to return a torch.nn.Module", got=type(net).__name__)
    return net


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        fix = "run from the folder that contains the package, or install it"
        raise expected("a function package.module:function", got=f"{name} ({error})", fix=fix) from error


@contextmanager
def _this_folder_importable() -> Iterator[None]:
    """Put the working directory on `sys.path` inside the block, as `python -m` does."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
