"""What is in the output folder of a hardening before it starts is not overwritten, and its result can be opened."""

from pathlib import Path

import pytest
import torch

import holdfast as hf
from holdfast.errors import DataError


@pytest.mark.parametrize(("file", "held"), [("config.toml", "a training run"), ("weights.pt", r"weights\.pt")])
def test_weights_that_are_there_are_not_overwritten(tmp_path: Path, file: str, held: str) -> None:
    (tmp_path / file).write_text("x")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    few = hf.data.load("digits", split="train").stratified(200, seed=0)
    with pytest.raises(hf.InputError, match=f"for the hardening, got .*, which holds {held}; choose another"):
        hf.harden(net, few, eps=0.1, steps=4, limit=4, passes=1, strong=False, out=tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_the_folder_of_a_hardening_says_how_to_open_it(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match=r"the function that builds the network, and pass weights='.*safetensors'"):
        hf.load(tmp_path)
