"""Build the network of a config, open a network by name, and load the network of a run directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.config import Network, RunConfig, config_from_file
from holdfast.data.preprocessing import NORMALISATIONS, Preprocessing, check_normalisation
from holdfast.errors import DataError, expected
from holdfast.experiment.layout import CONFIG, WEIGHTS
from holdfast.experiment.weights import put_weights
from holdfast.models import Classifier, SoftplusNetwork, build
from holdfast.models.foreign.registry import SOURCES, build_foreign, is_foreign
from holdfast.models.precision import in_float32
from holdfast.zoo import index as zoo
from holdfast.zoo.weights import fetch

Statistics = tuple[tuple[float, ...] | None, tuple[float, ...] | None]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How to open a network: its weights, the arguments of its builder, its normalisation and its output.

    `weights_key` selects one of several sets of weights in a checkpoint. `normalize` is a name of `NORMALISATIONS` or
    "none". `output` is the index or key of the logits in what the network returns. `builder` names the function that
    builds the own network of a run.
    """

    weights: Path | None = None
    weights_key: str | None = None
    arguments: Mapping[str, Any] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    normalize: str | None = None
    output: int | str | None = None
    builder: str | None = None


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A network ready for use, with what its source records.

    `preprocessing` and `class_names` are those of a package or of a saved `transformers` model, `config` is that of the
    run the network comes from, and `notes` say what was converted or assumed. `frozen` names the modules that the
    builder left in evaluation mode while others are in training mode.
    """

    network: Classifier
    preprocessing: Preprocessing | None = None
    class_names: tuple[str, ...] = ()
    config: RunConfig | None = None
    notes: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()

    def for_training(self) -> Classifier:
        """The network with the modes of its builder, if it froze some layers; else as it is."""
        if self.frozen:
            self.network.train()
        for name in self.frozen:
            self.network.get_submodule(name).training = False
        return self.network


def _frozen(network: nn.Module) -> tuple[str, ...]:
    """The modules in evaluation mode; none if no layer without children is in training mode."""
    mixed = any(layer.training for layer in network.modules() if not any(layer.children()))
    return tuple(name for name, layer in network.named_modules() if mixed and not layer.training)


def load(
    path: Path | str,
    *,
    network: nn.Module | str | None = None,
    weights: Path | str | None = None,
    **arguments: Any,
) -> Classifier:
    """Load a trained network, on the CPU, in evaluation mode.

    `path` is one of

    - a run directory: `load("results/mnist/erar")`. If the run trained a custom network, pass `network`: the module, or
      `package.module:function` that builds it. The name in the run's config is not imported. `weights` replaces the
      weights of the run, for example by those of `holdfast harden`.
    - `zoo:NAME`, one of `hf.zoo.list()`.
    - a network by name, with `weights` and the `arguments` of its builder: `package.module:function`, `timm:NAME`,
      `torchvision:NAME` or `hf:FOLDER`, as in `load("timm:resnet18", weights="last.pth", num_classes=10)`.
    - a file of weights, with the `network` they belong to: `load("w.pt", network=net)`.

    Weights in half precision are converted to float32.

    >>> import torch
    >>> import holdfast as hf
    >>> hf.load("zoo:gtsrb/madry")(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 43])
    """
    file, of_run = Path(path), is_run(str(path))
    chosen = None if weights is None else Path(weights)
    if is_foreign(str(path)) and not of_run:
        return open_model(str(path), ModelOptions(weights=chosen, arguments=arguments)).network
    if arguments or (chosen is not None and not of_run):
        raise expected("weights and arguments only with the name of a network", got=f"them with {path}")
    if of_run or network is None:
        return load_run(path, network=network, weights=chosen).network
    model = _wrapped(network, Network(name="own")) if isinstance(network, nn.Module) else open_model(network).network
    put_weights(model, file)
    return model.eval()


def open_model(name: str, options: ModelOptions | None = None) -> OpenedModel:
    """Open a run directory, or a network by name: `package.module:function`, `timm:NAME`, `torchvision:`, `hf:`."""
    options = options or ModelOptions()
    if is_run(name):
        _check_options_of_run(options)
        return load_run(name, network=options.builder, weights=options.weights, weights_key=options.weights_key)
    if not is_foreign(name):
        known = ", ".join(f"{source}:..." for source in SOURCES)
        raise expected(f"a model as package.module:function, {known}, zoo:NAME or a run directory", got=repr(name))
    if options.builder is not None:
        raise expected("a builder only with a run directory", got=repr(options.builder), fix="leave it out")
    check_normalisation(options.mean, options.std)
    built = build_foreign(name, options=dict(options.arguments or {}), offered={}, seed=0)
    mean, std = _normalisation(options, built.preprocessing)
    notes = (*built.notes, *in_float32(built.net))
    network = _wrapped(built.net, Network(name=name, mean=mean, std=std, output=options.output))
    if options.weights is not None:
        notes += put_weights(network, options.weights, options.weights_key)
    frozen = _frozen(network)
    return OpenedModel(
        network=network.eval(),
        preprocessing=built.preprocessing,
        class_names=built.class_names,
        notes=notes,
        frozen=frozen,
    )


def is_run(name: str) -> bool:
    """Whether a name is that of a trained network with its config: a directory, or `zoo:NAME`."""
    return Path(name).is_dir() or name.startswith(zoo.PREFIX)


def load_run(
    path: Path | str,
    *,
    network: nn.Module | str | None = None,
    weights: Path | None = None,
    weights_key: str | None = None,
) -> OpenedModel:
    """The network of a run directory or `zoo:NAME`, and its config; a custom network needs `network`, as for `load`.

    `weights` are a file or folder of other weights for this network, such as those of a hardening.
    """
    config = run_config(path)
    if is_foreign(config.model.name) and network is None:
        fix = f"if you trust it, pass network={config.model.name!r}"
        raise expected("the function that builds the run's own network", got="none", fix=fix)
    if isinstance(network, nn.Module):
        model = _wrapped(network, config.model)
    else:
        name = {} if network is None else {"name": network}
        model = build_model(config.model.model_copy(update=name), seed=config.seed)
    if weights is None:
        weights = fetch(str(path)) if _in_zoo(path) else Path(path)
    notes = put_weights(model, weights, weights_key)
    frozen = _frozen(model)
    return OpenedModel(network=model.eval(), config=config, notes=notes, frozen=frozen)


def run_config(path: Path | str) -> RunConfig:
    """The config of a run directory or of `zoo:NAME`."""
    folder = zoo.find(str(path)).folder if _in_zoo(path) else Path(path)
    if not (folder / CONFIG).is_file():
        raise DataError(f"expected a run directory with {CONFIG} at {folder}, got none; {_instead_of_run(folder)}.")
    return config_from_file(folder / CONFIG)


def _in_zoo(path: Path | str) -> bool:
    return str(path).startswith(zoo.PREFIX)


def _instead_of_run(folder: Path) -> str:
    """How to open what a folder without a config holds."""
    if (folder / "config.json").is_file():
        return f"write hf:{folder}"
    if (folder / WEIGHTS).is_file():
        return f"name the run, or the function that builds the network, and pass weights='{folder / WEIGHTS}'"
    return "`holdfast train` creates one"


def build_model(network: Network, *, seed: int) -> Classifier:
    """Build a registered or custom network, initialised from the seed and wrapped with its normalisation."""
    shape = {key: getattr(network, key) for key in ("num_classes", "in_channels", "image_size")}
    offered = {key: value for key, value in shape.items() if value is not None}
    if not is_foreign(network.name):
        return _wrapped(build(network.name, **{**network.options, **offered, "seed": seed}), network)
    built = build_foreign(network.name, options=dict(network.options), offered=offered, seed=seed)
    in_float32(built.net)
    own = ModelOptions(mean=network.mean, std=network.std)
    mean, std = _normalisation(own, built.preprocessing)
    return _wrapped(built.net, network.model_copy(update={"mean": mean, "std": std}))


def _normalisation(options: ModelOptions, recorded: Preprocessing | None) -> Statistics:
    """Mean and std: those given, those of the named normalisation, or those that the source of the network records."""
    if options.normalize is not None and (options.mean is not None or options.std is not None):
        raise expected("normalize, or mean and std", got="both", fix="leave one of them out")
    if options.normalize is not None:
        known = {"none": (None, None), **NORMALISATIONS}
        if options.normalize not in known:
            raise expected(f"normalize to be one of {', '.join(known)}", got=repr(options.normalize))
        return known[options.normalize]
    if options.mean is not None or options.std is not None or recorded is None:
        return options.mean, options.std
    return recorded.mean, recorded.std


def _check_options_of_run(options: ModelOptions) -> None:
    own = {name: getattr(options, name) for name in ("arguments", "mean", "std", "normalize", "output")}
    wrong = [name for name, value in own.items() if value]
    if wrong:
        fix = "a trained network has its own arguments and normalisation"
        raise expected("only weights and a builder with a run directory or zoo:NAME", got=", ".join(wrong), fix=fix)


def _wrapped(net: nn.Module, network: Network) -> Classifier:
    """Wrap a network with its normalisation and activation; a Classifier is returned as it is, since it has its own."""
    if not isinstance(net, Classifier):
        net = net if network.softplus is None else SoftplusNetwork(net, network.softplus)
        return Classifier(net, mean=network.mean, std=network.std, output=network.output)
    for key in ("mean", "std", "softplus"):
        if getattr(network, key) is not None:
            raise expected(f"no model.{key} for a network that is a Classifier", got="one", fix="remove it")
    return net
