"""`hf:FOLDER`: an image classifier that `transformers` saved on disk, with its preprocessing and its classes.

Only the folder is read: nothing is downloaded, no code that lies in the folder is run, and weights are read as
safetensors or with `torch.load(weights_only=True)`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.data.formats.geometry import FILTERS, Sides
from holdfast.data.preprocessing import Preprocessing
from holdfast.errors import DataError, expected
from holdfast.models.foreign.built import Built, reason_of, seeded
from holdfast.models.foreign.packages import imported
from holdfast.storage.json_files import read_json

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
REFUSED = (
    "do_flip_channel_order",
    "do_pad",
    "do_thumbnail",
    "do_color_quantize",
    "do_grayscale",
    "do_convert_grayscale",
)
"""Steps of preprocessing that would change the input in a way that holdfast cannot put inside the network."""

_SHOWN = 5


def build_transformers(name: str, options: dict[str, Any], offered: dict[str, Any], seed: int) -> Built:
    """The network of the folder after `hf:`; `options` are changes of its config, such as `num_labels`."""
    folder = Path(name.partition(":")[2]).expanduser()
    if not (folder / CONFIG).is_file():
        fix = "save the network there with model.save_pretrained(FOLDER)"
        raise expected(f"a folder with {CONFIG} after hf:", got=str(folder), fix=fix)
    transformers = imported("transformers")
    has_weights = any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))
    with _silent(transformers), seeded(seed):
        net, missing = (
            _loaded(transformers, folder, options) if has_weights else (_empty(transformers, folder, options), ())
        )
    if missing:
        shown = ", ".join(sorted(missing)[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        raise DataError(
            f"expected all weights of the network in {folder}, found no {shown} ({len(missing)} missing); "
            "the folder holds a network without a trained classifier."
        )
    record = read_json(folder / PREPROCESSOR) if (folder / PREPROCESSOR).is_file() else None
    notes = (
        () if record is not None else (f"{folder} has no {PREPROCESSOR}: pixels are not normalised unless you say so",)
    )
    if not has_weights:
        notes = (*notes, f"{folder} has no weights: they are random unless you give some")
    return Built(
        net=net,
        preprocessing=_without_record(net.config) if record is None else preprocessing_of(record),
        class_names=_class_names(net.config),
        notes=notes,
    )


def preprocessing_of(record: Mapping[str, Any]) -> Preprocessing:
    """What a `preprocessor_config.json` says, for pixels in [0, 1].

    >>> preprocessing_of({"size": {"height": 8, "width": 8}, "image_mean": [0.5], "image_std": [0.5]})
    Preprocessing(size=(8, 8), crop=None, resample='bilinear', mean=(0.5,), std=(0.5,))
    """
    strange = [step for step in REFUSED if record.get(step)]
    if strange:
        raise expected("preprocessing by resizing, cropping and normalisation", got=", ".join(strange))
    try:
        size, crop = _geometry(record)
        mean, std = _normalisation(record)
        number = record.get("resample", 2)
        resample = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")[number]  # Pillow's numbers
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"cannot read {PREPROCESSOR}: {type(error).__name__}: {error}.") from None
    assert resample in FILTERS
    return Preprocessing(size=size, crop=crop, resample=resample, mean=mean, std=std)


def _geometry(record: Mapping[str, Any]) -> tuple[Sides | None, Sides | None]:
    """Size and crop as `Geometry` has them."""
    size = record.get("size")
    crop = _sides(record.get("crop_size", size)) if record.get("do_center_crop") else None
    if not record.get("do_resize", True) or size is None:
        return None, crop
    short = size.get("shortest_edge") if isinstance(size, Mapping) else size if isinstance(size, int) and crop else None
    if short is None:
        return _sides(size), crop
    if crop is None and record.get("crop_pct"):  # ConvNeXt crops small images and squeezes large ones
        return (int(short / record["crop_pct"]), int(short)) if short < 384 else (_sides(short), None)
    return int(short), int(short) if crop is None else crop


def _sides(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        side = size.get("shortest_edge")
        return (int(side), int(side)) if side is not None else (int(size["height"]), int(size["width"]))
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[1])
    return int(size), int(size)


def _normalisation(record: Mapping[str, Any]) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Mean and std for pixels p in [0, 1]: (p - mean) / std equals (scale p - offset - m) / s of the record."""
    scale = 255 * float(record.get("rescale_factor", 1 / 255)) if record.get("do_rescale", True) else 255.0
    offset = 1.0 if record.get("rescale_offset") else 0.0
    normalise = record.get("do_normalize", True) and record.get("image_mean") is not None
    means, stds = (record["image_mean"], record["image_std"]) if normalise else ([0.0], [1.0])
    mean = tuple(round((float(m) + offset) / scale, 9) for m in means)
    std = tuple(round(float(s) / scale, 9) for s in stds)
    return (None, None) if set(mean) == {0.0} and set(std) == {1.0} else (mean, std)


def _without_record(config: Any) -> Preprocessing | None:
    side = getattr(config, "image_size", None)
    return None if side is None else Preprocessing(size=_sides(side))


def _class_names(config: Any) -> tuple[str, ...]:
    """The names of the outputs in order; empty for the names LABEL_0, LABEL_1, ... that transformers fills in."""
    table = getattr(config, "id2label", None) or {}
    names = tuple(str(table[at]) for at in range(len(table)) if at in table)
    return () if len(names) != len(table) or all(n == f"LABEL_{at}" for at, n in enumerate(names)) else names


def _loaded(transformers: Any, folder: Path, options: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    make = transformers.AutoModelForImageClassification.from_pretrained
    fixed = {"local_files_only": True, "trust_remote_code": False, "output_loading_info": True}
    try:
        net, found = make(str(folder), **{**options, **fixed})
    except Exception as error:
        raise _refused(folder, error) from error
    return net, (*found["missing_keys"], *(str(key) for key in found.get("mismatched_keys", ())))


def _empty(transformers: Any, folder: Path, options: dict[str, Any]) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(
            str(folder), **{**options, "local_files_only": True, "trust_remote_code": False}
        )
        return transformers.AutoModelForImageClassification.from_config(config)
    except Exception as error:
        raise _refused(folder, error) from error


def _refused(folder: Path, error: Exception) -> Exception:
    got = f"{type(error).__name__}: {reason_of(error)}"
    fix = "it must be one that AutoModelForImageClassification opens"
    return expected(f"an image classifier of transformers in {folder}", got=got, fix=fix)


@contextmanager
def _silent(transformers: Any) -> Iterator[None]:
    """Without the progress bars and messages of `transformers` inside the block."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
