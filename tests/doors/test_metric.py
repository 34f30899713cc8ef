"""A new metric is one function and one line in the registry: it is then in rows, tables, report and battery."""

from pathlib import Path

import pytest
import torch
from tests.conformance.battery import check_metric
from tests.doors.material import digits, network

import holdfast as hf
from holdfast.cli import main
from holdfast.metrics import METRICS, Metric
from holdfast.metrics.maps import or_nan, rankable
from holdfast.recipes import AttackSettings, make_attacks
from holdfast.report import view_runs
from holdfast.report.html import report_html
from holdfast.report.render import to_csv, to_markdown
from holdfast.report.write import all_tables
from holdfast.runs import read_run

RESULTS = Path(__file__).parents[2] / "results"


def same_peak(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """1 where both maps have their largest entry at the same pixel."""
    first, second, valid = rankable(a, b)
    return or_nan((first.argmax(1) == second.argmax(1)).double(), valid)


@pytest.fixture
def metric(monkeypatch: pytest.MonkeyPatch) -> Metric:
    made = Metric(
        name="peak", title="Same peak", function=same_peak, range=(0.0, 1.0), unit="percent", level="headline"
    )
    monkeypatch.setitem(METRICS, "peak", made)
    return made


def evaluated(folder: Path) -> Path:
    attacks = make_attacks(AttackSettings(eps=0.1, steps=3, k=12, ig_steps=4), ["ifia-topk", "random"])
    protocol = hf.EvaluationProtocol(attacks=attacks, limit=12, panels=2)
    hf.evaluate(network(), digits(), protocol, out=folder)
    return folder


def test_it_passes_the_battery(metric: Metric) -> None:
    check_metric(metric)


def test_it_is_in_rows_summary_tables_and_report(
    metric: Metric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = read_run(evaluated(tmp_path / "run"))
    assert "peak" in (tmp_path / "run" / "examples.csv").read_text().splitlines()[0].split(",")
    assert {row.score("peak") for row in run.examples.rows} <= {0.0, 1.0, None}
    for attack in (run.summary or {})["attacks"].values():
        assert attack["peak"]["n"] > 0
        assert "peak" in attack["conventions"]["dropped"]
    views = view_runs([run])
    tables = all_tables(views)
    assert any("Same peak" in to_markdown(table) for table in tables if table.name.startswith("results"))
    assert any("peak_failure_is_1" in to_csv(table) for table in tables if table.name == "conventions")
    page = report_html(views)
    assert "Same peak" in page
    assert '"name":"peak"' in page
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")]) == 0
    assert "Same" in capsys.readouterr().out


def test_rows_from_before_it_stay_readable_and_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = evaluated(tmp_path / "run")
    before = (folder / "examples.csv").read_text()
    made = Metric(name="peak", title="Same peak", function=same_peak, range=(0.0, 1.0))
    monkeypatch.setitem(METRICS, "peak", made)
    run = read_run(folder)
    assert all(row.score("peak") is None for row in run.examples.rows)
    (table,) = (table for table in all_tables(view_runs([run])) if table.name.startswith("results"))
    assert "Same peak" not in to_markdown(table)  # no run has measured it
    attacks = make_attacks(AttackSettings(eps=0.1, steps=3, k=12, ig_steps=4), ["ifia-topk", "random"])
    protocol = hf.EvaluationProtocol(attacks=attacks, limit=20, panels=0)
    hf.evaluate(network(), digits(), protocol, out=folder)
    after = (folder / "examples.csv").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) > len(before.splitlines())


@pytest.mark.skipif(not RESULTS.exists(), reason="the published results are not in this copy")
def test_published_rows_stay_readable(metric: Metric) -> None:
    run = read_run(RESULTS / "mnist" / "erar_plus_v1")
    assert len(run.examples.rows) == 900
    assert "Same peak" not in to_markdown(all_tables(view_runs([run]))[1])
