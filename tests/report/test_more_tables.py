"""Means, paired differences, costs, and the page they go into."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.report.runs import write_run

from holdfast.report import RunView, view_runs, write_page
from holdfast.report.compare import differences_of
from holdfast.report.more_tables import checks_table, costs_table, means_table, paired_table, worst_table
from holdfast.report.render import plain_cell, to_markdown
from holdfast.report.view import datasets
from holdfast.runs import read_run


@pytest.fixture
def group(views: tuple[RunView, ...]) -> tuple[RunView, ...]:
    return next(iter(datasets(views).values()))


def test_means_are_those_of_the_rows(group: tuple[RunView, ...]) -> None:
    table = means_table(group)
    row = next(r for r in table.rows if r[0].value == group[0].label and r[1].value == "ifia-topk")
    rows = [r for r in group[0].run.examples.rows if r.attack == "ifia-topk"]
    scored = [r.score("top_k") if r.outcome == "attacked" else 1.0 for r in rows if r.outcome != "misclassified"]
    assert row[3].value == pytest.approx(np.mean(scored))
    assert row[2].value == len(scored)
    assert len(table.rows) == sum(len(view.attacks) for view in group)


def test_our_run_is_compared_with_every_other(group: tuple[RunView, ...]) -> None:
    table = paired_table(group)
    assert [row[1].value for row in table.rows] == [view.label for view in group if view.method != "erar_plus"]
    assert {row[0].value for row in table.rows} == {"erar_plus"}
    assert {row[0].value for row in paired_table(group[:2]).rows} == {group[1].label}
    natural = table.rows[0]
    assert natural[3].ci95 is not None
    assert natural[3].ci95[0] > 0  # made up so that erar_plus is far better
    assert plain_cell(natural[3], table.columns[3]).startswith("+")


def test_a_run_is_compared_with_ours_of_its_own_seed(tmp_path: Path) -> None:
    made = [("natural", 0), ("madry", 0), ("madry", 1), ("erar_plus", 0), ("erar_plus", 1)]
    runs = [write_run(tmp_path / f"{method}{seed}", method=method, seed=seed, log=False) for method, seed in made]
    table = paired_table(view_runs([read_run(run) for run in runs]))
    assert [(row[0].value, row[1].value) for row in table.rows] == [
        ("erar_plus · seed 0", "natural"),
        ("erar_plus · seed 0", "madry · seed 0"),
        ("erar_plus · seed 1", "madry · seed 1"),
    ]


def test_a_variant_of_our_method_is_compared_with_the_other_methods(tmp_path: Path) -> None:
    made = ("natural", "madry", "erar_plus", "erar_plus-strong")
    runs = [write_run(tmp_path / method, method=method, log=False) for method in made]
    table = paired_table(view_runs([read_run(run) for run in runs]))
    assert [(row[0].value, row[1].value) for row in table.rows] == [
        ("erar_plus", "natural"),
        ("erar_plus", "madry"),
        ("erar_plus", "erar_plus-strong"),
        ("erar_plus-strong", "natural"),
        ("erar_plus-strong", "madry"),
    ]


def test_without_our_method_every_run_is_compared_with_the_last_once(tmp_path: Path) -> None:
    made = ("natural", "madry", "erar_plus-strong")
    runs = [write_run(tmp_path / method, method=method, log=False) for method in made]
    table = paired_table(view_runs([read_run(run) for run in runs]))
    assert [(row[0].value, row[1].value) for row in table.rows] == [
        ("erar_plus-strong", "natural"),
        ("erar_plus-strong", "madry"),
    ]


def test_variants_are_compared_within_their_seed(tmp_path: Path) -> None:
    made = [("madry", 0), ("madry", 1), ("erar_plus", 0), ("erar_plus", 1), ("erar_plus-strong", 1)]
    runs = [write_run(tmp_path / f"{method}{seed}", method=method, seed=seed, log=False) for method, seed in made]
    table = paired_table(view_runs([read_run(run) for run in runs]))
    assert [row[1].value for row in table.rows if row[0].value == "erar_plus-strong"] == ["madry · seed 1"]


def test_runs_measured_on_other_images_are_not_compared(group: tuple[RunView, ...]) -> None:
    before, after = (view.run.rows_of("ifia-topk") for view in (group[0], group[-1]))
    assert differences_of(before, after)
    assert not differences_of([replace(row, id=row.id + 100_000) for row in before], after)
    few = [row if row.id < 10 else replace(row, id=row.id + 100_000) for row in before]  # chance shares some images
    assert not differences_of(few, after)


def test_the_worst_of_all_attacks_is_that_of_the_rows(tmp_path: Path) -> None:
    attacks = ("ifia-topk", "ifia-ensemble", "random")
    runs = [
        read_run(write_run(tmp_path / method, method=method, attacks=attacks, log=False))
        for method in ("natural", "erar_plus")
    ]
    natural, ours = worst_table(view_runs(runs)).rows
    worst: dict[int, float] = {}
    for row in runs[0].examples.rows:
        if row.attack != "random" and row.outcome != "misclassified":
            worst[row.id] = min(worst.get(row.id, 1.0), 1.0 if row.score("top_k") is None else row.score("top_k"))
    assert natural[1].value == len(worst)
    assert natural[2].value == pytest.approx(np.median(list(worst.values())))
    gain = natural[-2]
    assert gain.ci95 is not None
    assert gain.ci95[0] > 0  # made up so that erar_plus is far better
    assert ours[-2].value is None


def test_the_worst_table_names_the_run_it_compares_with(tmp_path: Path) -> None:
    attacks = ("ifia-topk", "ifia-ensemble")
    folders = [write_run(tmp_path / m, method=m, attacks=attacks, log=False) for m in ("natural", "madry")]
    table = worst_table(view_runs([read_run(folder) for folder in folders]))
    assert table.columns[-2].title == "madry minus this row: Top-k (points)"


def test_an_attack_that_one_run_has_alone_does_not_count_as_worst(tmp_path: Path) -> None:
    common = ("ifia-topk", "strongest", "random")
    made = {"natural": common, "madry": common[::2], "erar_plus": (*common, "universal")}
    runs = [write_run(tmp_path / m, method=m, attacks=attacks, log=False) for m, attacks in made.items()]
    table = worst_table(view_runs([read_run(run) for run in runs]))
    assert [row[0].value for row in table.rows] == ["natural", "erar_plus"]
    assert table.notes[0].startswith("Worst value over ifia-topk, strongest for")
    assert table.notes[-1] == "Not measured with strongest: madry."


def test_ablations_are_not_compared_with_the_last_of_them(tmp_path: Path) -> None:
    attacks = ("ifia-topk", "strongest", "random")
    made = ("erar", "erar-cacr-only", "erar-no-base")
    runs = [write_run(tmp_path / m, method=m, attacks=attacks, log=False) for m in made]
    views = view_runs([read_run(run) for run in runs])
    assert not paired_table(views).rows
    worst = worst_table(views)
    assert len(worst.rows) == 3
    assert not any("minus this row" in text for text in (*worst.notes, *(column.title for column in worst.columns)))


def test_one_attack_has_no_worst(group: tuple[RunView, ...]) -> None:
    assert {name for view in group for name in view.attacks} == {"ifia-topk", "random"}
    assert not worst_table(group).rows


def test_costs_are_compared_with_the_papers(group: tuple[RunView, ...]) -> None:
    table = costs_table(group)
    for row, view in zip(table.rows, [v for v in group if v.example_passes is not None], strict=True):
        assert row[2].value == view.example_passes
        if view.dataset == "mnist":
            assert str(row[3].value).startswith("1/")


def test_checks_are_those_of_the_file(group: tuple[RunView, ...]) -> None:
    assert not checks_table(group).rows
    folder = group[1].run.folder
    (folder / "checks.json").write_text('{"autoattack": {"n": 100, "pgd": 0.9, "autoattack": 0.87}}')
    fresh = replace(group[1], run=read_run(folder))
    table = checks_table([group[0], fresh])
    ((method, *cells),) = table.rows
    assert method.value == fresh.label
    assert [cell.value for cell in cells] == [100, 0.9, 0.87, None, None, None, None, None]
    assert "| 90.0 % | 87.0 % |" in to_markdown(table)


def test_the_page_gets_the_tables_between_its_marks(views: tuple[RunView, ...], tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    assert write_page(views, page, "mnist") == []
    page.write_text("words\n<!-- begin mnist -->\nold\n<!-- end mnist -->\nmore\n")
    for _ in range(2):
        assert write_page(views, page, "mnist") == [page]
    text = page.read_text()
    assert text.startswith("words\n<!-- begin mnist -->\n")
    assert text.endswith("<!-- end mnist -->\nmore\n")
    assert "old" not in text
    assert text.count(to_markdown(means_table(next(iter(datasets(views).values()))))) == 1
    assert write_page(views, page, "fashion-mnist") == []
    assert page.read_text() == text
