"""Network, images and form of the weights for the command `holdfast harden`."""

from dataclasses import replace
from pathlib import Path

from holdfast.data import Dataset
from holdfast.data.loading import default_split
from holdfast.errors import expected
from holdfast.experiment.audit_inputs import ImageOptions, is_data_of, open_images
from holdfast.experiment.hardening.own_weights import OwnWeights, own_weights, own_weights_of_file
from holdfast.experiment.layout import WEIGHTS
from holdfast.experiment.networks import ModelOptions, OpenedModel, is_run


def open_both_parts(path: Path | None, model: OpenedModel, options: ImageOptions) -> tuple[Dataset, Dataset]:
    """Training and held-out images; the share `options.holdout` is used only for data without a test part."""
    if path is None and model.config is None:
        raise expected("data to train the network on", got="none", fix="pass data=FOLDER")
    of_run = model.config is not None and (path is None or is_data_of(path, model.config))
    divided = of_run or (path is not None and default_split(path) == "test")
    if divided:
        options = replace(options, holdout=None)
    train, held_out = (open_images(path, model, replace(options, split=split)) for split in ("train", "test"))
    return train, held_out


def form_of(name: str, model: OpenedModel, options: ModelOptions) -> OwnWeights:
    """How the user saves the weights: as in the file they came from, or else as the network itself has them."""
    if options.weights is not None:
        return own_weights_of_file(model.network, options.weights, options.weights_key)
    if is_run(name) and (Path(name) / WEIGHTS).is_file():
        return own_weights_of_file(model.network, Path(name))
    return own_weights(model.network if is_run(name) else model.network.net)
