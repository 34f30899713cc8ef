"""Registry of named transforms, Dataset -> Dataset. To add one, write its file and add it to the table here."""

import inspect
from collections.abc import Callable, Iterable
from functools import partial

from holdfast.data.dataset import Dataset
from holdfast.data.transforms.class_balance import balance
from holdfast.data.transforms.histogram import equalize
from holdfast.data.transforms.image_form import grey, resize, rgb
from holdfast.data.transforms.mirrored import mirror
from holdfast.errors import expected

__all__ = ["TRANSFORMS", "Transform", "apply", "balance", "equalize", "grey", "mirror", "parse", "resize", "rgb"]

Transform = Callable[[Dataset], Dataset]

TRANSFORMS: dict[str, Callable[..., Dataset]] = {
    "equalize": equalize,
    "balance": balance,
    "mirror": mirror,
    "resize": resize,
    "rgb": rgb,
    "grey": grey,
}


def parse(text: str) -> Transform:
    """Parse a transform: its name, with integer settings after a colon (`equalize`, `balance:to=1000,seed=3`)."""
    name, _, settings = text.partition(":")
    if name not in TRANSFORMS:
        raise expected(f"a transform ({', '.join(TRANSFORMS)})", got=repr(name))
    known = list(inspect.signature(TRANSFORMS[name]).parameters)[1:]
    values: dict[str, int] = {}
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        if key not in known or not value.isdigit():
            raise expected(f"settings of {name} ({', '.join(known) or 'it has none'}) as key=number", got=repr(setting))
        values[key] = int(value)
    return partial(TRANSFORMS[name], **values)


def apply(dataset: Dataset, transforms: Iterable[str | Transform]) -> Dataset:
    """Apply transforms, given as names or functions, from left to right."""
    for transform in transforms:
        dataset = (parse(transform) if isinstance(transform, str) else transform)(dataset)
    return dataset
