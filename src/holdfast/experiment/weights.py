"""Read weights from a file or run directory, and put them into a network.

Weights are read as safetensors or with `torch.load(weights_only=True)`; a file never causes code to be imported.
"""

from pathlib import Path

from torch import nn

from holdfast.errors import DataError, expected
from holdfast.experiment.layout import WEIGHTS
from holdfast.models import Classifier, SoftplusNetwork
from holdfast.models.weight_files import SUFFIXES, TORCH_SUFFIXES, FoundWeights, read_torch_file
from holdfast.models.weight_names import fit_weights
from holdfast.training.checkpoint import read_weights


def put_weights(model: Classifier, path: Path, key: str | None = None) -> tuple[str, ...]:
    """Load weights whose names are those of `model` or of `model.net`, but for prefixes of wrappers; returns notes.

    A softplus network also takes the weights of its ReLU network.
    """
    file = path / WEIGHTS if path.is_dir() else path
    found = read_weights_file(file, key)
    fit_weights((model, model.net, *_relu_networks(model)), found.tensors, file.name)
    kinds = {str(value.dtype).removeprefix("torch.") for value in found.tensors.values() if value.is_floating_point()}
    other = ", ".join(sorted(kinds - {"float32"}))
    return (*found.notes, *([f"the weights are stored in {other}; holdfast computes in float32"] if other else []))


def _relu_networks(model: Classifier) -> tuple[nn.Module, ...]:
    """The ReLU network of a softplus one, alone and with the normalisation; both share the tensors of `model`."""
    if not isinstance(model.net, SoftplusNetwork):
        return ()
    whole = Classifier(model.net.net)
    whole.mean, whole.std = model.mean, model.std
    return model.net.net, whole


def read_weights_file(file: Path, key: str | None = None) -> FoundWeights:
    """The tensors of a safetensors file, or those under `key` in a checkpoint of `torch.save`."""
    if not file.is_file():
        trained = "weights are written when training is finished; resume it with `holdfast train --out RUN --resume`"
        fix = trained if file.name == WEIGHTS else "check the path"
        raise DataError(f"expected weights at {file}, got no such file; {fix}.")
    if file.suffix.lower() in TORCH_SUFFIXES:
        return read_torch_file(file, key)
    if file.suffix.lower() not in SUFFIXES:
        raise expected(f"weights as {', '.join(SUFFIXES)}", got=file.name, fix="rename the file if it is one of them")
    if key is not None:
        raise expected("a key only for a checkpoint of torch.save", got=f"{key!r} for {file.name}", fix="leave it out")
    return FoundWeights(tensors=read_weights(file))
