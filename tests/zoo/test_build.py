"""The zoo is what the committed run directories say, and the builder writes exactly that."""

import json
import shutil
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import InputError
from holdfast.runs import Run
from holdfast.zoo import build
from holdfast.zoo.index import NETWORKS, WEIGHTS, ZooNetwork
from holdfast.zoo.model_card import count_parameters, make_card

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("entry", hf.zoo.list(), ids=lambda entry: entry.name)
def test_index_and_card_are_up_to_date(entry: ZooNetwork) -> None:
    run = Run(RESULTS / entry.name)
    assert build.describe(entry.name, run) == entry, "run: make zoo"
    assert make_card(run, entry.name) == hf.zoo.card(entry.name), "run: make zoo"


def test_the_index_has_every_network_of_the_results() -> None:
    assert list(build.find_sources(RESULTS)) == [entry.name for entry in hf.zoo.list()], "run: make zoo"


def test_the_networks_of_the_results_fit_into_the_package() -> None:
    sizes = [(run.folder / WEIGHTS).stat().st_size for run in build.find_sources(RESULTS).values()]
    assert 0 < sum(size for size in sizes if size <= build.MAX_PACKAGED) <= build.MAX_TOTAL


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A committed run whose weights are packaged, and one whose weights are too large for that."""
    for name in ("fashion-mnist/madry", "gtsrb/madry"):
        shutil.copytree(RESULTS / name, tmp_path / "results" / name)
    (tmp_path / "results" / "README.md").write_text("not a run")
    return tmp_path / "results"


def test_small_weights_are_packaged_and_large_ones_are_release_files(results: Path, tmp_path: Path) -> None:
    entries = build.build(results, tmp_path / "networks")
    assert build.write_assets(results, tmp_path / "assets", tmp_path / "networks") == entries[:1]
    assert [(entry.name, entry.packaged) for entry in entries] == [
        ("fashion-mnist/madry", False),
        ("gtsrb/madry", True),
    ]
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name in made if not name.startswith("results/")} == {
        "assets/fashion-mnist-madry.safetensors",
        "networks/index.json",
        "networks/gtsrb/madry/card.md",
        "networks/gtsrb/madry/config.toml",
        "networks/gtsrb/madry/weights.safetensors",
        "networks/fashion-mnist/madry/card.md",
        "networks/fashion-mnist/madry/config.toml",
    }
    for name in ("gtsrb/madry/card.md", "gtsrb/madry/weights.safetensors", "fashion-mnist/madry/card.md"):
        assert (tmp_path / "networks" / name).read_bytes() == (NETWORKS / name).read_bytes()


def test_assets_need_an_index_that_is_up_to_date(results: Path, tmp_path: Path) -> None:
    networks, assets = tmp_path / "networks", tmp_path / "assets"
    build.build(results, networks)
    before = {path: path.read_bytes() for path in networks.rglob("*") if path.is_file()}
    shutil.copytree(results / "gtsrb/madry", results / "gtsrb/trades")
    with (results / "fashion-mnist/madry" / WEIGHTS).open("ab") as file:
        file.write(b"changed")
    with pytest.raises(InputError, match=r"got another one for fashion-mnist/madry, gtsrb/trades; run `make zoo`"):
        build.write_assets(results, assets, networks)
    assert not assets.exists()
    assert {path: path.read_bytes() for path in networks.rglob("*") if path.is_file()} == before


def test_the_command_writes_assets_or_the_package(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(build, "write_assets", lambda *given: calls.append(("assets", *given)) or ())
    monkeypatch.setattr(build, "build", lambda *given: calls.append(("package", *given)) or ())
    build.main([str(results), "--assets", "folder"])
    build.main([str(results)])
    assert calls == [("assets", results, Path("folder")), ("package", results)]
    monkeypatch.undo()
    with pytest.raises(SystemExit, match="error: expected runs of natural"):
        build.main([str(results / "gtsrb")])


def test_the_card_has_the_figures_of_the_summary(results: Path) -> None:
    summary = json.loads((results / "fashion-mnist/madry/summary.json").read_text())
    card = make_card(Run(results / "fashion-mnist/madry"), "fashion-mnist/madry")
    assert f"{summary['natural_accuracy']:.1%}".replace("%", " %") in card
    stat = summary["attacks"]["strongest"]["kendall"]
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
