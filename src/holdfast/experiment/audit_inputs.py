"""The images of an audit, made to fit the network: split, size, channels, and the order of the classes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.config import RunConfig
from holdfast.data import Dataset, to_float
from holdfast.data import load as load_dataset
from holdfast.data.classes import fit_to_outputs, ordered_like, read_class_names
from holdfast.data.datasets.own_folder import is_divided
from holdfast.data.datasets.own_npz import has_labels
from holdfast.data.formats.arrays import Arrays
from holdfast.data.formats.geometry import Geometry
from holdfast.data.loading import default_split
from holdfast.data.transforms.image_form import with_channels, with_geometry
from holdfast.errors import expected
from holdfast.experiment.networks import OpenedModel
from holdfast.experiment.run import load_data
from holdfast.models.probe import probe_network

PREDICTED = "predicted"


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Which images to take and how to prepare them; None leaves the choice to the network's own preprocessing.

    With `crop`, `size` is the shorter side. `labels` is "given" or "predicted". `classes` is a file of class names in
    the order of the network's outputs. `channels` is "rgb" or "grey". `layout` and `quantize` are for `.npz` files.
    """

    size: int | None = None
    crop: int | None = None
    split: str | None = None
    holdout: float | int | None = None
    labels: str = "given"
    classes: Path | None = None
    channels: str | None = None
    layout: str | None = None
    quantize: bool = False


def open_images(path: Path | None, model: OpenedModel, options: ImageOptions) -> Dataset:
    """Load the images of an audit of `model`; the notes of the dataset say what was converted and assumed.

    Without a path, or with the data of the run that trained the network, the images are the test part of that run.
    """
    run = model.config
    if run is not None and (path is None or is_data_of(path, run)):
        loaded = images = _of_run(run, options)
    elif path is not None:
        loaded = _loaded(path, model, options)
        images = loaded if path.is_dir() else with_geometry(loaded, _geometry(model, options))
    else:
        raise expected("data to audit the network on", got="none", fix="pass data=FOLDER")
    if options.channels is not None:
        images = with_channels(images, options.channels)
    images = _fitted(images, model, options)
    return images if images.x is loaded.x else replace(images, checksum=_checksum(images))


def _of_run(run: RunConfig, options: ImageOptions) -> Dataset:
    """A part of the data that a run was trained on, divided and prepared as it was there."""
    _check_division(run, options.holdout)
    changes = {"size": options.size, "crop": options.crop}
    given = {key: value for key, value in changes.items() if value is not None}
    skip = {"skip_unreadable": True} if Path(run.data.name).expanduser().is_dir() else {}
    data = run.data.model_copy(update={"options": {**run.data.options, **given, **skip}})
    split = options.split or "test"
    images = load_data(run.model_copy(update={"data": data}), split)
    return replace(images, notes=(*images.notes, f"the images are the {split} part of the run's own data"))


def _check_division(run: RunConfig, holdout: float | int | None) -> None:
    """Refuse another holdout than that of the run: it would mix training images with the others."""
    own = run.data.options.get("holdout")
    if holdout is None or holdout == own:
        return
    if own is None:
        raise expected("no holdout, since the run's data has a test part", got=f"holdout={holdout}", fix="leave it out")
    fix = "leave it out, since another one takes images that the network was trained on"
    raise expected(f"holdout={own}, as in the training of the run", got=f"holdout={holdout}", fix=fix)


def _loaded(path: Path, model: OpenedModel, options: ImageOptions) -> Dataset:
    """Data of the user's own, or a named dataset; images of a folder are resized as they are read."""
    split = options.split or ("test" if options.holdout is not None else default_split(path))
    asked: dict[str, Any] = {} if options.holdout is None else {"holdout": options.holdout}
    if path.is_dir():
        geometry = _geometry(model, options)
        asked |= {"size": geometry.size, "crop": geometry.crop, "resample": geometry.resample}
        asked |= {"skip_unreadable": True, "unlabelled": options.labels == PREDICTED and not is_divided(path)}
        return load_dataset(path, split, **asked)
    if path.is_file():
        asked |= {"layout": options.layout, "quantize": options.quantize}
        asked |= {"unlabelled": options.labels == PREDICTED and path.suffix == ".npz" and not has_labels(path)}
    return load_dataset(path, split, **asked)


def _checksum(images: Dataset) -> str:
    """The checksum of images whose pixels are no longer those that were loaded: it tells one size from another."""
    return Arrays(images.x.numpy(), images.y.numpy()).checksum()


def _geometry(model: OpenedModel, options: ImageOptions) -> Geometry:
    """Size and crop of the options; without them those of the network's source, or of the run it comes from."""
    if options.size is not None or options.crop is not None:
        return Geometry(size=options.size, crop=options.crop)
    if model.preprocessing is not None:
        return model.preprocessing.geometry
    of_run = {} if model.config is None else model.config.data.options
    known = {key: _whole(of_run[key]) for key in ("size", "crop") if key in of_run}
    return Geometry(**known, **{key: of_run[key] for key in ("resample",) if key in of_run})


def _whole(value: Any) -> Any:
    """A size from a config file, where a height and width are a list."""
    return tuple(value) if isinstance(value, list) else value


def _fitted(images: Dataset, model: OpenedModel, options: ImageOptions) -> Dataset:
    """The images with the channels that the network takes and with labels that are its outputs; raises if neither."""
    device = next((p.device for p in model.network.parameters()), None)
    found = probe_network(model.network, to_float(images.x[:2], device))
    if found.channels != images.image_shape[0]:
        images = with_channels(images, "rgb")
    notes = found.notes
    names = model.class_names if options.classes is None else read_class_names(options.classes)
    outputs = found.logits.shape[1]
    if names and len(names) != outputs:
        where = options.classes or "its config"
        raise expected(f"{outputs} class names, one per output of the network", got=f"{len(names)} in {where}")
    if options.labels == PREDICTED:
        images = replace(images, class_names=names) if names else images
    elif names:
        images = ordered_like(images, names)
    else:
        images, more = fit_to_outputs(images, outputs)
        notes += more
    return replace(images, notes=(*images.notes, *notes))


def is_data_of(path: Path, run: RunConfig) -> bool:
    """Whether a path is the data of the run: the same name, or the same folder or file."""
    if str(path) == run.data.name:
        return True
    there = Path(run.data.name).expanduser()
    return path.exists() and there.exists() and path.resolve() == there.resolve()
