"""The ablations of ERAR against the full method."""

from pathlib import Path

import numpy as np
import pytest
from tests.report.runs import STRENGTH, write_run

from holdfast.report import RunView, view_runs, write_tables
from holdfast.report.ablations import ablation_table
from holdfast.report.render import plain_cell
from holdfast.runs import read_run

ATTACKS = ("ifia-topk", "strongest", "random")


@pytest.fixture
def ablated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunView, ...]:
    monkeypatch.setitem(STRENGTH, "erar", 0.8)
    monkeypatch.setitem(STRENGTH, "erar-cacr-only", 0.3)
    monkeypatch.setitem(STRENGTH, "erar-no-base", 0.8)
    made = ("madry", "erar", "erar-cacr-only", "erar-no-base", "erar-cacr-only-scale-100")
    return view_runs(
        [read_run(write_run(tmp_path / method, method=method, attacks=ATTACKS, log=False)) for method in made]
    )


def test_every_variant_is_compared_with_the_method_it_changes_under_both_attacks(ablated: tuple[RunView, ...]) -> None:
    table = ablation_table(ablated)
    found = [tuple(cell.value for cell in row[:3]) for row in table.rows]
    pairs = [
        ("erar-cacr-only", "erar"),
        ("erar-no-base", "erar"),
        ("erar-cacr-only-scale-100", "erar-cacr-only"),
    ]
    assert found == [(*pair, attack) for pair in pairs for attack in ("ifia-topk", "strongest")]
    weak, same = table.rows[0], table.rows[2]
    assert weak[-1].value == "Top-k, Kendall"  # made up so that it is far below the full method
    assert same[-1].value == "no"  # made up with the same rows
    assert same[4].value == 0
    rows = {view.method: {row.id: row for row in view.run.rows_of("ifia-topk")} for view in ablated}
    full, variant = rows["erar"], rows["erar-cacr-only"]
    moved = [
        _kept(variant[i]) - _kept(full[i]) for i in full if "misclassified" not in (full[i].outcome, variant[i].outcome)
    ]
    assert weak[4].value == pytest.approx(np.mean(moved))
    assert weak[3].value == len(moved)


def test_only_runs_with_the_same_seed_tier_and_network_are_compared(tmp_path: Path) -> None:
    full = {"method": "erar", "preset": "mnist/erar:cpu", "network": "paper-cnn"}
    variant = {"method": "erar-no-base", "preset": "mnist/erar-no-base:cpu", "network": "paper-cnn"}
    made = {
        "full": full,
        "full-again": full,
        "full-1": full | {"seed": 1},
        "like": variant,
        "like-1": variant | {"seed": 1},
        "other-seed": variant | {"seed": 2},
        "other-tier": variant | {"preset": "mnist/erar-no-base:paper"},
        "other-network": variant | {"network": "wrn-16-2"},
    }
    runs = [write_run(tmp_path / name, attacks=ATTACKS, log=False, **known) for name, known in made.items()]
    views = {view.run.name: view for view in view_runs([read_run(run) for run in runs])}
    table = ablation_table(list(views.values()))
    pairs = dict.fromkeys(tuple(cell.value for cell in row[:2]) for row in table.rows)
    assert list(pairs) == [(views[a].label, views[b].label) for a, b in (("like", "full"), ("like-1", "full-1"))]
    alone = ", ".join(views[name].label for name in ("other-seed", "other-tier", "other-network"))
    assert f"Without a run to compare with: {alone}." in table.notes


def test_a_run_without_one_of_the_attacks_is_named(tmp_path: Path) -> None:
    made = {"erar": ATTACKS, "erar-cacr-only": ATTACKS, "erar-no-base": ("ifia-topk", "random")}
    runs = [write_run(tmp_path / m, method=m, attacks=attacks, log=False) for m, attacks in made.items()]
    table = ablation_table(view_runs([read_run(run) for run in runs]))
    assert [row[2].value for row in table.rows if row[0].value == "erar-no-base"] == ["ifia-topk"]
    assert "Not measured with strongest: erar-no-base." in table.notes


def _kept(row: object) -> float:
    score = row.score("top_k")  # type: ignore[attr-defined]
    return 1.0 if score is None else score


def test_the_difference_of_the_paper_stands_beside_that_of_the_reference_attack(ablated: tuple[RunView, ...]) -> None:
    table = ablation_table(ablated)
    reference, strongest = table.rows[:2]
    assert [reference[4].paper, reference[5].paper] == [pytest.approx(0.7662 - 0.81), pytest.approx(0.3203 - 0.3494)]
    assert plain_cell(reference[4], table.columns[4]).endswith("(paper -4.38)")
    assert [strongest[4].paper, strongest[5].paper] == [None, None]


def test_the_table_is_written_where_there_are_ablations(ablated: tuple[RunView, ...], tmp_path: Path) -> None:
    assert "ablations-mnist.md" in {path.name for path in write_tables(ablated, tmp_path / "with")}
    assert "ablations-mnist.md" not in {path.name for path in write_tables(ablated[:2], tmp_path / "without")}
