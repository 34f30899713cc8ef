"""What version 0.1 began goes on: a run in training, a half-finished evaluation, and the published results.

`tests/fixtures/version-0.1` was written by the last commit before files and settings got their present names:
`begun` is digits/erar_plus stopped by SIGTERM after 21 of 40 steps, `half` an evaluation killed after its first attack;
`expected` is what the same version wrote without an interruption.
"""

import shutil
from pathlib import Path

import pytest
import torch

from holdfast.cli import main
from holdfast.config import config_from_file, make_config
from holdfast.evaluation.identity import same, words_of
from holdfast.experiment.measure import MeasureOptions, protocol_of
from holdfast.experiment.tables import TABLES
from holdfast.report import view_runs, write_tables
from holdfast.runs import Examples, read_log, read_run
from holdfast.runs.names import UNIVERSAL
from holdfast.storage.json_files import read_json
from holdfast.training.checkpoint import read_weights

ROOT = Path(__file__).parents[2]
BEFORE = ROOT / "tests" / "fixtures" / "version-0.1"
RESULTS = ROOT / "results"
PUBLISHED = sorted(path.parent for path in RESULTS.glob("*/*/config.toml"))
EDITION_3 = {
    "edition=4)": "edition=3)",
    "rate=0.8, start='random', points=1, memory=8)": "rate=0.3, start='random', points=1, memory=8)",
    "widths=(0.05, 0.01), rate=0.2,": "widths=(0.05, 0.01), rate=0.3,",
}
EDITION_2 = {", edition=3)": ")"}
EDITION_1 = {
    "step=0, bands=40)": "step=0, offsets=16)",
    "widths=(0.05, 0.01), rate=0.3, start='contrast', points=1, memory=8)": (
        "widths=(0.05, 0.01), rate=0.3, start='random', points=1, memory=1)"
    ),
}
"""The strongest attack in earlier editions, with which some tables were measured: docs/attack.md, *Editions*."""
needs_results = pytest.mark.skipif(not PUBLISHED, reason="the published results are not in this copy")


def test_a_run_in_training_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(BEFORE / "begun", folder)
    assert main(["train", "--out", str(folder), "--resume", "--quiet"]) == 0
    after, expected = (read_weights(place / "weights.safetensors") for place in (folder, BEFORE / "expected"))
    assert after.keys() == expected.keys()
    for name, value in after.items():  # bit-equal where it was written; another machine rounds differently
        torch.testing.assert_close(value, expected[name], rtol=0, atol=2e-3)
    steps = [entry["step"] for entry in read_log(folder / "log.jsonl").entries]
    assert steps == [entry["step"] for entry in read_log(BEFORE / "expected" / "log.jsonl").entries]


def test_a_half_finished_evaluation_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(BEFORE / "half", folder)
    begun = (folder / "examples.csv").read_text()
    assert main(["evaluate", str(folder), "--as-before", "--limit", "24", "--pgd-limit", "60", "--quiet"]) == 0
    assert (folder / "examples.csv").read_text().startswith(begun)
    rows = {(row.attack, row.id): row for row in Examples(folder / "examples.csv").read().rows}
    expected = {(row.attack, row.id): row for row in Examples(BEFORE / "expected" / "examples.csv").read().rows}
    assert rows.keys() == expected.keys()
    assert all(rows[key].outcome == expected[key].outcome for key in rows)
    pairs = [(rows[key].score("kendall"), expected[key].score("kendall")) for key in rows]
    close = [abs(one - other) < 0.02 for one, other in pairs if one is not None and other is not None]
    assert sum(close) >= 0.9 * len(close)


def test_an_evaluation_with_another_attack_is_still_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(BEFORE / "half", folder)
    config = (folder / "config.toml").read_text().replace("steps = 50\n", "steps = 51\n")
    (folder / "config.toml").write_text(config)
    assert main(["evaluate", str(folder), "--as-before", "--limit", "24", "--pgd-limit", "60", "--quiet"]) == 2


def test_old_names_of_settings_are_understood() -> None:
    config = make_config(
        "mnist/erar_plus_v1:cpu", overrides=[("evaluate.ifia.search_points", "7"), ("method.settings.quiet", "3.0")]
    )
    assert config.evaluate.ifia is not None
    assert config.evaluate.ifia.search_ig_steps == 7
    assert config.method.settings["dead_zone"] == 3.0
    assert "quiet" not in config.method.settings


@needs_results
@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_published_configs_and_measurements_are_understood(folder: Path) -> None:
    config = config_from_file(folder / "config.toml")
    assert make_config(config.preset, overrides=[("seed", str(config.seed))]).method.name == config.method.name
    if not (folder / "measured.json").exists():
        return
    measured = read_json(folder / "measured.json")
    before, present = (protocol_of(config, MeasureOptions(as_before=old)) for old in (True, False))
    attacks = {"pgd": present.pgd, "apgd": present.apgd, **present.attacks, **before.attacks}
    known = {name.removeprefix("attack ") for name in measured if name.startswith("attack ")}
    assert {"pgd", "ifia-topk", "random"} <= known <= {*attacks, UNIVERSAL}
    for name in known - {UNIVERSAL}:  # its settings are its pixels
        editions = [words_of(attacks[name])]
        for changes in (EDITION_3, EDITION_2, EDITION_1):
            earlier = editions[-1]
            for words, before_that in changes.items():
                earlier = earlier.replace(words, before_that)
            editions.append(earlier)
        assert any(same(measured[f"attack {name}"], words) for words in editions), name
    assert {row.attack for row in read_run(folder).examples.rows} == known - {"pgd", "apgd"}


@needs_results
@pytest.mark.parametrize(("name", "tables"), [("mnist", 11), ("fashion-mnist", 9)])
def test_published_tables_have_the_same_cells(name: str, tables: int, tmp_path: Path) -> None:
    jobs = TABLES[name].jobs(RESULTS, tier="cpu")
    write_tables(view_runs([read_run(job.folder) for job in jobs]), tmp_path)
    published = sorted((RESULTS / f"table-{name}").glob("*.csv"))
    assert len(published) == tables
    for table in published:
        assert (tmp_path / table.name).read_text() == table.read_text(), table.name
