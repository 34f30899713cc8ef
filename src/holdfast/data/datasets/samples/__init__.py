"""Images that ship with the package, each file with the licence of its dataset beside it."""

from importlib.resources import as_file, files
from typing import Any

from numpy.typing import NDArray

from holdfast.storage.npz import open_npz


def read_sample(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a sample: images `x`, labels `y`, and `ids`, their positions in the dataset they come from."""
    with as_file(files(__name__).joinpath(f"{name}.npz")) as path, open_npz(path) as npz:
        return {key: npz.read(key) for key in ("x", "y", "ids")}
