"""A new training method is one function, one line in `METHODS` and a part in common.toml: every dataset then has it."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from holdfast.cli import main
from holdfast.config import presets
from holdfast.experiment.tables import TABLES
from holdfast.losses import CrossEntropy
from holdfast.objective import Objective, Term
from holdfast.recipes import METHODS
from holdfast.recipes.inner import AT_X, AT_X_ADV, search


def half_half(model: nn.Module, *, eps: float, attack_steps: int, step_size: float, share: float = 0.5) -> Objective:
    """share CE(x) + (1 - share) CE(x')."""
    attack = search(CrossEntropy(), eps, attack_steps, step_size)
    return Objective(model, [Term(share * AT_X + (1 - share) * AT_X_ADV, attack)], name="half_half")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(METHODS, "half_half", half_half)
    read = presets._file

    def with_one_more(name: str) -> dict[str, Any]:
        file = read(name)
        if name != "common":
            return file
        part = {"uses": ["attack"], "method": {"name": "half_half", "settings": {"share": 0.25}}}
        return {**file, "part": {**file["part"], "half_half": part}}

    monkeypatch.setattr(presets, "_file", with_one_more)


def test_every_dataset_with_a_tier_has_its_preset(capsys: pytest.CaptureFixture[str]) -> None:
    for dataset in ("digits", "mnist", "fashion-mnist", "gtsrb", "flower17"):
        assert f"{dataset}/half_half:cpu" in presets.preset_names()
        config = presets.load_preset(f"{dataset}/half-half")
        assert config.method.settings["share"] == 0.25
        assert config.method.settings["eps"] > 0
    assert main(["presets", "digits"]) == 0
    assert "digits/half_half" in capsys.readouterr().out


def test_it_is_trained_measured_and_put_into_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = "train digits/half_half --train.steps 2 --evaluate.attacks random --evaluate.limit 6 --evaluate.pgd.limit 6"
    assert main([*words.split(), "--quiet"]) == 0
    assert main(["evaluate", "runs/digits/half_half", "--quiet"]) == 0
    assert "half_half" in capsys.readouterr().out
    (job,) = TABLES["digits"].jobs(Path("runs"), tier="cpu", methods=["half_half"])
    assert job.finished
    assert main(["report", "runs/digits/half_half", "--out", "page.html"]) == 0
    assert "half_half" in Path("page.html").read_text()


def test_a_method_without_a_preset_is_refused() -> None:
    with pytest.raises(Exception, match=r"methods .*natural, madry"):
        TABLES["digits"].jobs(Path("runs"), tier="cpu", methods=["half"])
