"""`holdfast evaluate` with several maps in the config of the run."""

import json
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.runs import read_run

CHANGES = {
    "train.steps": "60",
    "evaluate.maps": '["gradient", "input-x-gradient"]',
    "evaluate.attacks": '["ifia-topk", "random"]',
    "evaluate.ifia.steps": "2",
    "evaluate.pgd.steps": "2",
}


def test_the_comparison_of_several_maps_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, overrides = tmp_path / "run", [word for key, value in CHANGES.items() for word in (f"--{key}", value)]
    assert main(["train", "digits/natural", "--out", str(run), "--quiet", *overrides]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--limit", "6", "--pgd-limit", "6", "--quiet"]) == 0
    maps = json.loads((run / "summary.json").read_text())["maps"]
    assert set(maps["found"]) == {"gradient", "input-x-gradient"}
    assert maps["best"] in maps["found"]
    assert capsys.readouterr().out.splitlines()[0] == maps["sentence"]
    measured = {row.attack for row in read_run(run).examples.rows}
    assert measured == {"ifia-topk", "random", "ifia-topk:input-x-gradient", "random:input-x-gradient"}
