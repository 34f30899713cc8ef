"""Registry of named datasets. To add one, write its file with a `DatasetSpec` and add it to the table here."""

import difflib

from holdfast.data.datasets.digits import SPEC as DIGITS
from holdfast.data.datasets.fashion_sample import SPEC as FASHION_SAMPLE
from holdfast.data.datasets.flower17 import SPEC as FLOWER17
from holdfast.data.datasets.gtsrb import SPEC as GTSRB
from holdfast.data.datasets.mnist import FASHION_MNIST, MNIST
from holdfast.data.spec import DatasetSpec
from holdfast.errors import expected

_SPECS = (DIGITS, MNIST, FASHION_MNIST, FASHION_SAMPLE, GTSRB, FLOWER17)
SPECS = {spec.name: spec for spec in _SPECS}


def names() -> tuple[str, ...]:
    """Names of the datasets that `load` knows.

    >>> "mnist" in names()
    True
    """
    return tuple(SPECS)


def find_spec(name: str) -> DatasetSpec:
    """The spec called `name`; the error for an unknown name suggests the closest ones."""
    if name in SPECS:
        return SPECS[name]
    near = difflib.get_close_matches(name.lower(), names(), n=2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise expected(
        f"a dataset name ({', '.join(names())}) or the path of a folder or .npz file",
        got=repr(name),
        fix=f"{hint}check the spelling, or that the path exists",
    )
