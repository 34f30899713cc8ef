"""Published index lists: the test examples of datasets without an official split."""

import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


def split_indices(name: str, split: str, total: int) -> NDArray[np.int64]:
    """Ascending positions of one split: the published test list, or all other positions for training."""
    published: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8"))
    test = np.array(published["test"], np.int64)
    return test if split == "test" else np.setdiff1d(np.arange(total), test)
