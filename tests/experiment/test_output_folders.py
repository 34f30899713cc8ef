"""What is in the output folder of a hardening before it starts is not overwritten, and its result can be opened."""

from pathlib import Path

import pytest
import torch

import holdfast as hf
from holdfast.cli import main
from holdfast.errors import DataError


@pytest.mark.parametrize(("file", "held"), [("config.toml", "a training run"), ("weights.pt", r"weights\.pt")])
def test_weights_that_are_there_are_not_overwritten(tmp_path: Path, file: str, held: str) -> None:
    (tmp_path / file).write_text("x")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    few = hf.data.load("digits", split="train").stratified(200, seed=0)
    with pytest.raises(hf.InputError, match=f"for the hardening, got .*, which holds {held}; choose another"):
        hf.harden(net, few, eps=0.1, steps=4, limit=4, passes=1, strong=False, out=tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(("file", "held"), [("config.toml", "a training run"), ("weights.pt", r"weights\.pt")])
def test_an_audit_from_python_is_not_mixed_with_a_training_run(tmp_path: Path, file: str, held: str) -> None:
    (tmp_path / file).write_text("x")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    few = hf.data.load("digits", split="test").subset(range(20))
    with pytest.raises(hf.InputError, match=f"for the audit, got .*, which holds {held}; choose another"):
        hf.audit(net, few, labels="predicted", eps=0.1, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_a_training_run_is_not_mixed_with_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "measured.json").write_text("{}")
    assert main(["train", "digits/natural", "--train.steps", "1", "--out", str(tmp_path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "which holds the rows of an audit or an evaluation; choose another folder" in said
    assert [path.name for path in tmp_path.iterdir()] == ["measured.json"]


def test_the_folder_of_a_hardening_says_how_to_open_it(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match=r"the function that builds the network, and pass weights='.*safetensors'"):
        hf.load(tmp_path)
