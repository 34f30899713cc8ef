"""Tables and their renderings."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.report.runs import write_run

from holdfast.errors import DataError
from holdfast.report import RunView, view_runs
from holdfast.report.charts import box_plots
from holdfast.report.compare import compare, pick_base
from holdfast.report.html import report_html
from holdfast.report.quality_tables import controls_table, natural_maps_table, quality_table
from holdfast.report.render import latex_text, plain_cell, to_csv, to_latex, to_markdown, to_rich
from holdfast.report.sections import findings
from holdfast.report.tables import (
    Cell,
    Column,
    Table,
    conventions_table,
    exclusions_table,
    ordered,
    results_table,
)
from holdfast.report.view import Stat
from holdfast.runs import read_run, write_json_atomic

TOP_K = Column(key="top_k", title="Top-k", unit="percent")
TABLE = Table(
    name="t",
    title="A_b",
    columns=(
        Column(key="method", title="Method", unit="text"),
        Column(key="n", title="n", unit="count"),
        TOP_K,
        Column(key="kendall", title="Kendall", unit="number"),
    ),
    rows=(
        (
            Cell(value="x|y"),
            Cell(value=1360),
            Cell(value=0.81, ci95=(0.79, 0.826), n=136, paper=0.8),
            Cell(value=0.3494),
        ),
        (Cell(value="=1+1"), Cell(value=2), Cell(), Cell(value=-0.05, ci95=(-0.1, 0.0))),
    ),
    notes=("50 % of <b>, [a](b)",),
)


def test_markdown_by_hand() -> None:
    assert to_markdown(TABLE) == (
        "### A\\_b\n\n"
        "| Method | n | Top-k | Kendall |\n"
        "| --- | --: | --: | --: |\n"
        "| x\\|y | 1,360 | 81.0 % [79.0, 82.6] (paper 80.00 %) | 0.349 |\n"
        "| =1+1 | 2 |  | -0.050 [-0.100, 0.000] |\n\n"
        "- 50 % of \\<b\\>, [a]\\(b)\n"
    )


def test_latex_by_hand() -> None:
    lines = to_latex(TABLE).splitlines()
    assert lines[2] == r"\begin{tabular}{lrrr}"
    assert lines[6] == r"x|y & 1,360 & 81.0 \% [79.0, 82.6] (paper 80.00 \%) & 0.349 \\"
    assert r"\caption{A\_b. 50 \% of" in to_latex(TABLE)
    assert latex_text(r"\input{x}$") == r"\textbackslash{}input\{x\}\$"


def test_csv_has_bare_numbers_and_no_formula() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert ",".join(rows[0]) == (
        "method,n,top_k,top_k_low,top_k_high,top_k_n,top_k_paper,kendall,kendall_low,kendall_high"
    )
    assert rows[1] == ["x|y", "1360", "0.81", "0.79", "0.826", "136", "0.8", "0.3494", "", ""]
    assert rows[2][0] == "'=1+1"


def test_terminal_shows_markup_as_text() -> None:
    table = Table(
        name="t", title="[red]t", columns=TABLE.columns, rows=((Cell(value="[bold]x"), Cell(), Cell(), Cell()),)
    )
    console = Console(width=100, file=io.StringIO())
    console.print(to_rich(table))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[bold]x" in shown
    assert "[red]t" in shown


def test_cell_without_value_still_shows_the_paper() -> None:
    assert plain_cell(Cell(paper=0.5), TOP_K) == "(paper 50.00 %)"
    assert plain_cell(Cell(), TOP_K) == ""


def test_results_show_n_preset_subset_paper_and_control(views: tuple[RunView, ...]) -> None:
    text = to_markdown(results_table(views, compare(views)))
    assert "136 of 10,000 test images, stratified" in text
    assert "paper 81.00 %" in text
    assert "| erar | cpu | ifia-topk |" in text
    assert "| erar | cpu | random |" in text
    assert "Preset and seed: natural: cpu, seed 0" in text


def test_methods_come_in_the_order_of_the_papers(views: tuple[RunView, ...], demo: list[Path]) -> None:
    assert [view.label for view in views] == ["natural", "madry", "ig_sum_norm", "erar", "erar_plus"]
    again = view_runs([read_run(folder) for folder in reversed(demo)])
    assert [view.label for view in again] == [view.label for view in views]


def test_attacks_come_in_one_order_whichever_was_measured_first(views: tuple[RunView, ...]) -> None:
    attacks = next(view.attacks for view in views if "ifia-topk" in view.attacks)
    some = next(iter(attacks.values()))
    measured = {name: replace(some, name=name) for name in ("random", "other", "ifia-ensemble", "ifia-topk")}
    assert [attack.name for attack in ordered(measured)] == ["ifia-topk", "ifia-ensemble", "other", "random"]


def test_noise_beside_the_strongest_attack_is_on_its_map(tmp_path: Path) -> None:
    attacks = ("random-centred", "random", "strongest")
    folder = write_run(tmp_path / "run", method="natural", n=40, log=False, attacks=attacks)
    (view,) = views = view_runs([read_run(folder)])
    assert [attack.name for attack in ordered(view.attacks)] == ["strongest", "random", "random-centred"]
    kept = {name: f"{100 * view.attacks[name].metrics['top_k'].median:.1f} %" for name in attacks}
    (said,) = findings(views, {})
    assert f"keeps {kept['strongest']} " in said
    assert f" and {kept['random-centred']} " in said
    for plot in box_plots(views, {"natural": 0}):
        strong, noise = plot.boxes
        assert (strong.control, noise.control) == (False, True)
        assert noise.stat == view.attacks["random-centred"].metrics[plot.metric]
    page = report_html(views)
    assert page.count('<tr class="control') == 2


def test_comparison_with_natural_in_words(views: tuple[RunView, ...], tmp_path: Path) -> None:
    base = pick_base(views)
    assert base is not None
    assert base.label == "natural"
    found = compare(views)
    assert set(found) == {"madry", "ig_sum_norm", "erar", "erar_plus"}
    assert "chance" not in found["erar"].sentence()
    same = view_runs([views[0].run, read_run(write_run(tmp_path / "twin", method="natural", seed=9, log=False))])
    assert "the interval includes zero, so this may be chance" in next(iter(compare(same).values())).sentence()


def test_labels_differ_within_a_dataset(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", seed=1, n=20, log=False),
        write_run(tmp_path / "b", seed=2, n=20, log=False),
        write_run(tmp_path / "c", seed=2, n=20, log=False),
        write_run(tmp_path / "d", n=20, dataset="gtsrb", log=False),
    ]
    labels = [view.label for view in view_runs([read_run(run) for run in runs])]
    assert labels == ["erar · seed 1", "erar · seed 2 · b", "erar · seed 2 · c", "erar"]


def test_exclusions_count_every_example(views: tuple[RunView, ...]) -> None:
    table = exclusions_table(views)
    for row in table.rows:
        _, _, total, *counts = [cell.value for cell in row]
        assert total == sum(counts) == 136  # type: ignore[arg-type]
    assert any(note.startswith("Label lost: no step") for note in table.notes)


def test_conventions_and_quality(views: tuple[RunView, ...]) -> None:
    header = [column.title for column in conventions_table(views).columns]
    assert header[2:5] == ["Top-k, failed = 1", "Top-k, failed dropped", "Top-k, failed = worst"]
    quality = to_markdown(quality_table(views))
    assert "| Measure | Better | Range | madry | ig\\_sum\\_norm | erar | erar\\_plus |" in quality  # natural has none
    assert "natural network | higher | [-1, 1] | 0.750 [0.700, 0.790] (paper 0.9826) |" in quality
    assert "| Insertion area |  |  | 0.550 | 0.600 |" in quality  # a measure that this version does not know
    assert "attacked maps are" not in quality  # older runs do not say which
    assert "- Median [95 % interval] over the images, n = 130.\n" in quality  # no run has measured the attacked map
    attacked = [with_attacked(view, n) for view, n in ((views[1], 7), (views[2], 9))]
    assert "n = 130; under attack, n = 7 to 9.\n" in to_markdown(quality_table([*attacked, views[3]]))
    newer = [replace(view, quality_attack="strongest") for view in views]
    assert "- The maps and attacked maps are those of strongest.\n" in to_markdown(quality_table(newer))
    mixed = to_markdown(quality_table([views[1], *newer[2:4]]))
    assert "those of the first attack of the run (madry); strongest (ig\\_sum\\_norm, erar)." in mixed


def with_attacked(view: RunView, n: int) -> RunView:
    """The same run with a measure of the attacked map on `n` images."""
    return replace(view, quality={**view.quality, "adv_insertion": Stat(median=0.5, n=n)})


def test_a_table_of_a_wide_network_has_the_papers_values_and_names_both_networks(views: tuple[RunView, ...]) -> None:
    small, wide = (
        replace(views[1], dataset="gtsrb", group="gtsrb", network=name) for name in ("paper-resnet", "wrn-16-2")
    )
    tables = [results_table([view]) for view in (small, wide, replace(wide, network="wrn-28-10"))]
    assert [table.title for table in tables] == [
        "Results on gtsrb",
        "Results on gtsrb with wrn-16-2, the paper's values with WRN-28-10",
        "Results on gtsrb with wrn-28-10",
    ]
    papers = [{cell.paper for row in table.rows for cell in row if cell.paper is not None} for table in tables]
    assert 0.6885 in papers[0]
    assert papers[1] == papers[2]
    assert 0.8613 in papers[1]


def test_the_quality_table_of_the_paper(tmp_path: Path) -> None:
    measured = {("mnist", "madry"): 150, ("mnist", "erar"): 140, ("gtsrb", "erar"): 150}
    folders = [write_run(tmp_path / "natural", method="natural", n=8, quality={"insertion": 0.5})]
    for (dataset, method), n in measured.items():
        quality = {"natural_spearman": {"median": 0.9, "ci95": [0.8, 0.95], "n": n}}
        folders.append(write_run(tmp_path / dataset / method, dataset=dataset, method=method, n=8, quality=quality))
    table = natural_maps_table(view_runs([read_run(folder) for folder in folders]))
    text = to_markdown(table)
    assert "| Dataset | Images | madry | erar |" in text
    assert "| mnist | 140 to 150 | 0.900 [0.800, 0.950] (paper 0.9826) | 0.900 [0.800, 0.950] (paper 0.9957) |" in text
    assert "| gtsrb | 150 |  | 0.900 [0.800, 0.950] (paper 0.9368) |" in text
    assert not natural_maps_table(view_runs([read_run(folders[0])])).rows


def test_control_maps_stand_beside_the_network(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", n=20, log=False)
    content = read_run(folder).summary
    assert content is not None
    image = {"top_k": {"median": 0.9, "ci95": [0.8, 1.0], "n": 19}, "agreement": {"median": 0.5, "n": 19}}
    content["attacks"]["ifia-topk"] |= {"controls": {"image": image}, "k": 78, "chance": {"top_k": 0.1}}
    write_json_atomic(folder / "summary.json", content)
    (view,) = view_runs([read_run(folder)])
    table = controls_table([view])
    assert [[cell.value for cell in row[1:4]] for row in table.rows] == [
        ["ifia-topk", "network", view.attacks["ifia-topk"].metrics["top_k"].n],
        ["ifia-topk", "image itself", 19],
    ]
    text = to_markdown(table)
    assert "| image itself | 19 | 90.0 % [80.0, 100.0] |  | 0.500 |" in text
    assert "| two random maps |  | k = 78 |  |  |  | 10.0 % |" in to_markdown(results_table([view]))
    assert not controls_table(view_runs([read_run(write_run(tmp_path / "old", n=20, log=False))])).rows


def test_unfinished_and_unevaluated_runs_say_so(tmp_path: Path) -> None:
    (write_run(tmp_path / "half", n=20, log=False) / "summary.json").unlink()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.toml").write_text("")
    views = view_runs([read_run(tmp_path / "half"), read_run(tmp_path / "new")])
    assert "the evaluation is not finished" in views[0].notes[-1]
    assert views[1].notes == ("not evaluated yet",)
    assert "not evaluated yet" in to_markdown(results_table(views))


@pytest.mark.parametrize(
    "summary",
    [{"n": "many"}, {"attacks": []}, {"attacks": {"a": {"top_k": {"ci95": [1]}}}}, {"class_names": 3}, {"method": {}}],
)
def test_a_summary_of_the_wrong_kind_is_refused(tmp_path: Path, summary: dict[str, Any]) -> None:
    write_json_atomic(tmp_path / "run" / "summary.json", summary)
    with pytest.raises(DataError, match=r"in run/summary\.json.*evaluate the run again"):
        view_runs([read_run(tmp_path / "run")])
