"""A trained network and real digits for the tests of the doors."""

from pathlib import Path

import numpy as np
from tests import trained
from torch import nn

import holdfast as hf


def network() -> nn.Module:
    return trained.trained("digits-cnn", 8)


def digits() -> hf.data.Dataset:
    return hf.data.load("digits", split="test")


def digits_file(folder: Path) -> Path:
    data = digits()
    np.savez(folder / "digits.npz", x_test=data.x.permute(0, 2, 3, 1).numpy(), y_test=data.y.numpy())
    return folder / "digits.npz"
