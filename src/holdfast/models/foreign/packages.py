"""`timm:NAME` and `torchvision:NAME`: networks of these packages, with the preprocessing that they record."""

import math
from importlib import import_module
from typing import Any

from holdfast.data.preprocessing import Preprocessing
from holdfast.errors import expected
from holdfast.models.foreign.built import Built, called, reason_of


def build_timm(name: str, options: dict[str, Any], offered: dict[str, Any], seed: int) -> Built:
    """`timm.create_model(NAME)` with `options`, without pretrained weights unless `pretrained=true` is among them."""
    timm, wanted = imported("timm"), name.partition(":")[2]
    if wanted.partition(".")[0] not in timm.list_models():
        near = timm.list_models(f"*{wanted[:6]}*")[:4]
        raise expected("a network of timm", got=repr(wanted), fix=f"near are {', '.join(near) or 'none'}")
    renamed = {"num_classes": "num_classes", "in_channels": "in_chans"}
    shape = {renamed[key]: value for key, value in offered.items() if key in renamed}
    net = called(name, timm.create_model, {"model_name": wanted, "pretrained": False, **shape, **options}, seed)
    record = timm.data.resolve_model_data_config(net)
    side, share = record["input_size"][-1], record["crop_pct"]
    return Built(
        net=net,
        preprocessing=Preprocessing(
            size=math.floor(side / share),
            crop=side,
            resample=record["interpolation"] if record["interpolation"] != "random" else "bilinear",
            mean=tuple(record["mean"]),
            std=tuple(record["std"]),
        ),
    )


def build_torchvision(name: str, options: dict[str, Any], offered: dict[str, Any], seed: int) -> Built:
    """`torchvision.models.get_model(NAME)` with `options`, without pretrained weights unless `weights=` names them."""
    models, wanted = imported("torchvision").models, name.partition(":")[2]
    if wanted not in models.list_models(module=models):
        near = [other for other in models.list_models(module=models) if wanted[:4] in other][:4]
        raise expected("a network of torchvision.models", got=repr(wanted), fix=f"near are {', '.join(near) or 'none'}")
    shape = {key: value for key, value in offered.items() if key == "num_classes"}
    net = called(name, models.get_model, {"name": wanted, "weights": None, **shape, **options}, seed)
    record = models.get_model_weights(wanted).DEFAULT.transforms()
    return Built(
        net=net,
        preprocessing=Preprocessing(
            size=record.resize_size[0],
            crop=record.crop_size[0],
            resample=record.interpolation.value,
            mean=tuple(record.mean),
            std=tuple(record.std),
        ),
    )


def imported(package: str) -> Any:
    """An optional package; the error without it says how to get it."""
    try:
        return import_module(package)
    except Exception as error:
        got = (
            "no such package"
            if isinstance(error, ModuleNotFoundError)
            else f"{type(error).__name__}: {reason_of(error)}"
        )
        raise expected(f"the package {package}", got=got, fix=f"install it with: pip install {package}") from error
