"""Registry of maps by name, for configs and commands. To add one, write its file and add it to `MAPS`."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.attribution.gradcam import GradCAM
from holdfast.attribution.gradcam_plus_plus import GradCAMPlusPlus
from holdfast.attribution.gradient import Gradient
from holdfast.attribution.input_x_gradient import InputXGradient
from holdfast.attribution.integrated import IntegratedGradients
from holdfast.attribution.scores import score_of
from holdfast.attribution.smoothgrad import SmoothGrad
from holdfast.errors import expected
from holdfast.types import Attribution

MAPS: dict[str, Callable[..., Attribution]] = {
    "ig": IntegratedGradients,
    "gradient": Gradient,
    "input-x-gradient": InputXGradient,
    "smoothgrad": SmoothGrad,
    "gradcam": GradCAM,
    "gradcam++": GradCAMPlusPlus,
}
"""Name -> constructor. The keyword arguments of the constructor are the options of the map."""

LAYERED = ("gradcam", "gradcam++")
"""The maps of the features of a layer, which `layer` names."""


def check_layer(layer: str | None, maps: Iterable[str]) -> None:
    """Refuse the name of a layer if none of the maps, given by their names, uses it."""
    maps = tuple(maps)
    if layer is not None and not set(maps) & set(LAYERED):
        fix = f"leave it out, or use the map {LAYERED[0]}"
        raise expected(f"layer only with the maps {' and '.join(LAYERED)}", got=", ".join(maps), fix=fix)


def make_map(name: str, options: Mapping[str, Any] | None = None, **offered: Any) -> Attribution:
    """Build the map called `name` with `options`.

    `offered` are defaults: the map uses those it has a parameter for, unless `options` sets them. A
    `score` may be given by its name in `SCORES`.

    >>> make_map("ig", steps=20).steps
    20
    >>> make_map("gradient", steps=20)  # doctest: +ELLIPSIS
    Gradient(score=<function true_logit at 0x...>, chunk=None)
    >>> make_map("gradient", {"score": "centred-logit"})  # doctest: +ELLIPSIS
    Gradient(score=<function centred_logit at 0x...>, chunk=None)
    """
    if name not in MAPS:
        raise expected(f"map to be one of {', '.join(MAPS)}", got=repr(name))
    known = inspect.signature(MAPS[name]).parameters
    options = dict(options or {})
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise expected(f"options of the map {name} ({', '.join(known)})", got=", ".join(unknown))
    chosen = {key: value for key, value in offered.items() if key in known} | options
    if "score" in chosen:
        chosen["score"] = score_of(chosen["score"])
    return MAPS[name](**chosen)
