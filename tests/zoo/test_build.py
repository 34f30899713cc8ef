"""The zoo is what the committed run directories say, and the builder writes exactly that."""

import json
import shutil
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import InputError
from holdfast.runs import Run
from holdfast.zoo import build
from holdfast.zoo.index import NETWORKS, ZooNetwork
from holdfast.zoo.model_card import count_parameters, make_card

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("entry", hf.zoo.list(), ids=lambda entry: entry.name)
def test_index_and_card_are_up_to_date(entry: ZooNetwork) -> None:
    run = Run(RESULTS / entry.name)
    assert build.describe(entry.name, run) == entry, "run: make zoo"
    assert make_card(run, entry.name) == hf.zoo.card(entry.name), "run: make zoo"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """One committed run that is packaged, and its copy under another dataset's name."""
    for name in ("gtsrb/madry", "mnist/madry"):
        shutil.copytree(RESULTS / name, tmp_path / "results" / name)
    (tmp_path / "results" / "README.md").write_text("not a run")
    return tmp_path / "results"


def test_small_weights_are_packaged_and_large_ones_are_release_files(results: Path, tmp_path: Path) -> None:
    entries = build.build(results, tmp_path / "networks", assets=tmp_path / "assets")
    assert [(entry.name, entry.packaged) for entry in entries] == [("gtsrb/madry", True), ("mnist/madry", False)]
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name in made if not name.startswith("results/")} == {
        "assets/mnist-madry.safetensors",
        "networks/index.json",
        "networks/gtsrb/madry/card.md",
        "networks/gtsrb/madry/config.toml",
        "networks/gtsrb/madry/weights.safetensors",
        "networks/mnist/madry/card.md",
        "networks/mnist/madry/config.toml",
    }
    for name in ("gtsrb/madry/card.md", "gtsrb/madry/weights.safetensors", "mnist/madry/card.md"):
        assert (tmp_path / "networks" / name).read_bytes() == (NETWORKS / name).read_bytes()


def test_the_card_has_the_figures_of_the_summary(results: Path) -> None:
    summary = json.loads((results / "mnist/madry/summary.json").read_text())
    card = make_card(Run(results / "mnist/madry"), "mnist/madry")
    assert f"{summary['natural_accuracy']:.1%}".replace("%", " %") in card
    stat = summary["attacks"]["ifia-ensemble"]["kendall"]
    assert f"| {stat['median']:.3f} [{stat['ci95'][0]:.3f}, {stat['ci95'][1]:.3f}] |" in card
    assert f"| {stat['n']} |" in card


def test_values_are_counted() -> None:
    model = hf.load("zoo:gtsrb/madry")
    total = sum(value.numel() for value in model.state_dict().values())
    assert count_parameters(NETWORKS / "gtsrb/madry/weights.safetensors") == total


def test_too_much_for_the_package(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MAX_TOTAL", 1000)
    with pytest.raises(InputError, match="at most 1,000 bytes"):
        build.build(results, tmp_path / "networks")
    assert not (tmp_path / "networks").exists()
    with pytest.raises(InputError, match="got none"):
        build.build(tmp_path / "results" / "gtsrb", tmp_path / "networks")
