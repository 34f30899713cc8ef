"""The commands as a user runs them: train, evaluate, reproduce, report, demo; and the errors they give."""

import json
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.jobs import Job, run_local
from holdfast.tables import TABLES

SMALL = ["--evaluate.ifia.steps", "3", "--evaluate.ensemble.steps", "2", "--evaluate.pgd.steps", "3"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    assert main(["train", "digits/madry", "--train.steps", "12", "--out", str(folder), "--quiet", *SMALL]) == 0
    return folder


def test_train_evaluate_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--limit", "10", "--pgd-limit", "20", "--quality", "--quiet"]) == 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["method"] == "madry"
    assert summary["preset"] == "digits/madry:cpu"
    assert summary["example_passes"] > 0
    assert summary["train_seconds"] > 0
    assert summary["provenance"]["torch"]
    assert set(summary["attacks"]) == {"ifia-topk", "ifia-ensemble", "random"}
    assert {"insertion", "deletion", "randomised", "completeness"} <= set(summary["quality"])
    page = tmp_path / "page.html"
    assert main(["report", str(run), "--out", str(page), "--tables", str(tmp_path / "tables")]) == 0
    assert "madry" in page.read_text()
    assert list((tmp_path / "tables").glob("*.md"))
    assert "10 of 360" in capsys.readouterr().out


def test_reproduce_skips_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(
        preset="digits/natural:cpu",
        folder=tmp_path / "digits" / "natural",
        changes=(("train.steps", "8"), ("evaluate.ifia.steps", "2"), ("evaluate.ensemble.steps", "1")),
        options={"limit": 6, "pgd_limit": 6},
    )
    run_local([job], workers=1)
    before = (job.folder / "examples.csv").stat().st_mtime_ns
    assert main(["reproduce", "digits", "--methods", "natural", "--out", str(tmp_path)]) == 0
    assert (job.folder / "examples.csv").stat().st_mtime_ns == before
    assert (tmp_path / "table-digits").exists()
    assert "natural" in capsys.readouterr().out


def test_jobs_side_by_side_equal_one_after_the_other(tmp_path: Path) -> None:
    def jobs(folder: str) -> list[Job]:
        changes = (("train.steps", "6"), ("evaluate.ifia.steps", "2"), ("evaluate.ensemble.steps", "1"))
        return [
            Job(
                preset=f"digits/{m}:cpu",
                folder=tmp_path / folder / m,
                changes=changes,
                options={"limit": 4, "pgd_limit": 4},
            )
            for m in ("natural", "madry")
        ]

    run_local(jobs("one"), workers=1)
    run_local(jobs("two"), workers=2)
    for method in ("natural", "madry"):
        one, two = (tmp_path / folder / method for folder in ("one", "two"))
        assert (one / "weights.safetensors").read_bytes() == (two / "weights.safetensors").read_bytes()
        assert (one / "examples.csv").read_text() == (two / "examples.csv").read_text()


def test_list_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name in TABLES:
        assert name in said
    assert "0 of 6 runs done" in said


def test_every_table_has_its_presets() -> None:
    from holdfast.config import preset_names

    known = set(preset_names())
    for table in TABLES.values():
        for job in table.jobs(Path("runs"), tier="cpu"):
            assert job.preset in known or "-wrn/" in job.preset, job.preset
        if table.name != "digits":
            paper = {job.preset for job in table.jobs(Path("runs"), tier="paper")}
            assert paper & known, table.name


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--steps", "4", "--limit", "4", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for word in ("natural", "madry", "ig_sum_norm", "erar", "erar_plus", "strongest", "report:"):
        assert word in said
    assert (tmp_path / "report.html").stat().st_size > 50_000


def test_quick_bench_runs_every_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick"]) == 0
    said = capsys.readouterr().out
    for peer in ("captum", "scipy", "foolbox"):
        assert peer in said


def test_bench_refuses_to_time_unequal_results() -> None:
    from holdfast.bench import Case, time_case
    from holdfast.bench.timing import UnequalError

    case = Case(
        name="sum",
        peer="nobody",
        ours=lambda: 1.0,
        theirs=lambda: 2.0,
        difference=lambda a, b: abs(a - b),
        tolerance=0.1,
        target=1.0,
    )
    with pytest.raises(UnequalError, match="differ from nobody by 1"):
        time_case(case, rounds=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "nowhere"], "nowhere"),
        (["reproduce", "mnst"], "a table out of mnist"),
        (["reproduce", "digits", "--methods", "maddry"], "methods out of natural"),
        (["train", "digits/erarr"], "digits/erar"),
        (["train", "digits/erar", "--train.stps", "5"], "train.steps"),
        (["train", "digits/erar", "--train.steps"], "train.steps"),
        (["presets", "diff", "digits/erar", "digits/nothing"], "digits/nothing"),
        (["nothing"], "no command 'nothing'"),
    ],
)
def test_user_errors_are_one_sentence(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
