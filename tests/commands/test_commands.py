"""The commands as a user runs them: train, evaluate, reproduce, report, demo; and the errors they give."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli import COMMANDS, main
from holdfast.commands.demo import NEXT, WHY_CENTRED
from holdfast.experiment.jobs import Job, dependency_waves
from holdfast.experiment.local import run_local
from holdfast.experiment.tables import TABLES
from holdfast.recipes import strongest
from holdfast.runs import read_run

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
    assert set(summary["attacks"]) == {"ifia-topk", "strongest", "strongest-true-logit", "random", "random-centred"}
    assert {"insertion", "deletion", "randomised", "completeness"} <= set(summary["quality"])
    page = tmp_path / "page.html"
    assert main(["report", str(run), "--out", str(page), "--tables", str(tmp_path / "tables")]) == 0
    assert "madry" in page.read_text()
    assert list((tmp_path / "tables").glob("*.md"))
    assert "10 of 360" in capsys.readouterr().out


def test_the_universal_perturbation_has_rows_and_the_strongest_attack_names_its_members(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), "--limit", "4", "--pgd-limit", "4", "--universal", "6", "--quiet"]) == 0
    rows = read_run(run).examples.rows
    universal = [row for row in rows if row.attack == "universal"]
    assert len(universal) == 4
    assert {row.outcome for row in universal} <= {"attacked", "misclassified", "label_lost", "unmoved"}
    summary = json.loads((run / "summary.json").read_text())
    assert sum(summary["attacks"]["universal"]["outcomes"].values()) == 4
    members = set(strongest(eps=0.1, k=4).names)
    for row in rows:
        if row.attack in ("strongest", "strongest-true-logit"):
            assert (row.outcome == "attacked") == bool(row.winner)
            assert set(row.winner.split(" + ")) - {""} <= members
    assert any(row.winner for row in rows if row.attack == "strongest")


def test_reproduce_skips_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "digits", "--methods", "natural", "--limit", "4", "--pgd-limit", "4", "--out", str(tmp_path)]
    assert main(words) == 0
    rows = tmp_path / "digits" / "natural" / "examples.csv"
    before = rows.stat().st_mtime_ns
    assert main(words) == 0
    assert rows.stat().st_mtime_ns == before
    assert list((tmp_path / "table-digits").glob("*.md"))
    assert "natural" in capsys.readouterr().out


def test_results_of_other_settings_are_never_shown_as_asked_for(tmp_path: Path) -> None:
    job = small_job("digits/natural:cpu", tmp_path / "natural")
    run_local([job], workers=1)
    for other in (
        replace(job, preset="digits/madry:cpu"),
        replace(job, seed=1),
        replace(job, changes=(*job.changes, ("train.lr", "0.1"))),
    ):
        with pytest.raises(hf.InputError, match="another"):
            run_local([other], workers=1)
    measured_otherwise = replace(job, changes=(*job.changes, ("evaluate.ifia.steps", "3")))
    with pytest.raises(hf.InputError, match="another evaluate"):
        measured_otherwise.check()
    replace(measured_otherwise, measured=False).check()  # others only start from it


def small_job(preset: str, folder: Path) -> Job:
    changes = (("train.steps", "6"), ("evaluate.ifia.steps", "2"), ("evaluate.ensemble.steps", "1"))
    return Job(preset=preset, folder=folder, changes=changes, options={"limit": 4, "pgd_limit": 4})


def test_quality_is_measured_later_and_not_lost(tmp_path: Path) -> None:
    job = small_job("digits/natural:cpu", tmp_path / "natural")
    run_local([job], workers=1)
    with_quality = replace(job, options={**job.options, "quality": True})
    assert job.finished
    assert not with_quality.finished
    run_local([with_quality], workers=1)
    assert with_quality.finished
    assert main(["evaluate", str(job.folder), "--limit", "5", "--quiet"]) == 0
    assert with_quality.finished
    assert json.loads((job.folder / "summary.json").read_text())["quality_attack"] == "strongest"


def test_jobs_side_by_side_equal_one_after_the_other(tmp_path: Path) -> None:
    def jobs(folder: str) -> list[Job]:
        return [small_job(f"digits/{m}:cpu", tmp_path / folder / m) for m in ("natural", "madry")]

    run_local(jobs("one"), workers=1)
    run_local(jobs("two"), workers=2)
    for method in ("natural", "madry"):
        one, two = (tmp_path / folder / method for folder in ("one", "two"))
        assert (one / "weights.safetensors").read_bytes() == (two / "weights.safetensors").read_bytes()
        assert (one / "examples.csv").read_text() == (two / "examples.csv").read_text()


def test_runs_that_others_start_from_come_first(tmp_path: Path) -> None:
    jobs = TABLES["mnist"].jobs(tmp_path, tier="cpu", methods=("erar", "erar_plus_v1"), seeds=(0, 1))
    waves = dependency_waves(jobs)
    names = [[job.folder.name for job in wave] for wave in waves]
    assert sorted(names[0]) == ["erar_plus-quiet", "erar_plus-quiet-seed1", "madry", "madry-seed1"]
    assert sorted(names[1]) == ["erar", "erar-seed1", "erar_plus-maps", "erar_plus-maps-seed1"]
    assert [len(wave) for wave in waves] == [4, 4, 2]
    assert not any(job.measured for job in waves[0])
    assert all(job.measured for job in waves[-1])
    done = tmp_path / "mnist" / "madry"
    done.mkdir(parents=True)
    (done / "weights.safetensors").touch()  # without checkpoints nothing could go on: it counts as trained
    again = [job.folder.name for wave in dependency_waves(jobs) for job in wave]
    assert again.count("madry") == 1
    assert next(job for job in waves[0] if job.folder == done).finished


def test_list_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name in TABLES:
        assert name in said
    assert "0 of 6 runs done" in said


@pytest.mark.parametrize("tier", ["cpu", "paper", "released-code", "rar-config"])
@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_every_table_can_be_run_or_says_why_not(table, tier: str) -> None:
    from holdfast.config import make_config

    if not table.in_paper and tier != "cpu":  # its presets of this tier, if any, are those of other tables
        with pytest.raises(hf.InputError, match=f"tier cpu, the only one .*got {tier}"):
            table.jobs(Path("runs"), tier=tier)
        return
    missing = table.left_out(tier)
    if len(missing) == len(table.datasets) * len(table.methods):
        with pytest.raises(hf.InputError, match="a tier from"):
            table.jobs(Path("runs"), tier=tier)
        return
    jobs = table.jobs(Path("runs"), tier=tier)
    for job in jobs:
        make_config(job.preset)
    assert len(jobs) + len(table.left_out(tier)) == len(table.datasets) * len(table.methods)


def test_error_about_the_tier_lists_the_tiers_of_the_chosen_methods() -> None:
    with pytest.raises(hf.InputError, match="a tier from cpu that has these methods"):
        TABLES["gtsrb"].jobs(Path("runs"), tier="paper", methods=["trades"])
    with pytest.raises(hf.InputError, match="a tier from cpu, paper, rar-config that has these methods"):
        TABLES["gtsrb"].jobs(Path("runs"), tier="released-code", methods=["natural"])


def test_paper_tier_has_every_row_of_the_papers_tables() -> None:
    ours = {
        "erar_plus",
        "igr",
        "ig_norm",
        "madry-continued",
        "trades",
        "madry-first-layer",
        "erar_plus-first-layer",
    }  # rows the paper does not print
    for name in ("mnist", "fashion-mnist", "gtsrb", "flower17", "gtsrb-wrn", "flower17-wrn", "spearman"):
        assert {p.split("/")[1].split(":")[0] for p in TABLES[name].left_out("paper")} <= ours


@pytest.mark.parametrize("name", ["gtsrb-wrn", "flower17-wrn", "spearman"])
def test_wide_tables_name_the_network_of_two_cores(name: str) -> None:
    from holdfast.config import make_config

    table = TABLES[name]
    assert not table.left_out("cpu")
    networks = {make_config(job.preset).model.name for job in table.jobs(Path("runs"), tier="cpu")}
    assert networks == {"wrn-16-2"}
    assert "WRN-28-10; tier cpu: wrn-16-2" in table.title


def test_ctrl_c_stops_the_demo_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "holdfast", "demo", "--quick", "--steps", "40", "--out", str(tmp_path)]
    # whoever runs the tests in the background has Ctrl-C switched off, and children inherit that
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(words, preexec_fn=listening, **pipes) as process:
        deadline = time.time() + 120
        while not list(tmp_path.glob("*/log.jsonl")) and time.time() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=90)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert not (tmp_path / "report.html").exists()
    rows = sorted(tmp_path.glob("fashion-*/examples.csv"))  # the first part is finished and stays as it is
    before = [path.stat().st_mtime_ns for path in rows]
    assert main(words[3:]) == 0
    assert (tmp_path / "report.html").exists()
    assert [path.stat().st_mtime_ns for path in rows] == before
    assert len(rows) == 2


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--quick", "--steps", "4", "--limit", "4", "--workers", "1", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for word in ("natural", "madry", "trades", "erar", "erar_plus", "strongest", "11,008 example-passes"):
        assert word in said
    assert WHY_CENTRED in " ".join(said.split())
    page = (tmp_path / "report.html").read_text()
    for word in ("fashion-sample", "digits", "Accuracy against stability"):
        assert word in page
    assert (tmp_path / "demo.png").stat().st_size > 5_000
    for step in NEXT:
        command = step.command.split()
        assert step.command in said
        assert f"<span>{' '.join(command[:2])}" in page
        assert command[1] in COMMANDS
        assert "--model package.module:build --weights w.pt --data images/" in step.command  # the user's own
    assert (tmp_path / "trade-off.png").stat().st_size > 5_000


BENCH_ROWS = """
IG, 5 points, batch 4, paper-cnn | captum
IG, 5 points, paper-resnet at 32 x 32, batch 2 | captum
IG, 5 points, paper-resnet at 32 x 32, batch 2 | our IG without the shortcut
PGD, 2 steps, batch 4, paper-cnn | foolbox
PGD, 2 steps, batch 4, paper-cnn | ART toolbox
Kendall, [8, 100] | scipy in a loop
Spearman, [8, 100] | scipy in a loop
IFIA, 2 iterations, 4 points, 2 images, paper-cnn | one image at a time, plain autograd
IFIA, fast protocol, 2 iterations, 2 images | paper protocol, 10 points
ERAR inner step, 2 points, batch 4, paper-cnn | plain eager autograd
ERAR training step, paper's settings, batch 4 (at most 1.15 times the time) | RAR IG-SUM-NORM step
PGD, 5 steps, batch 2, paper-resnet 32² | ten lines, usual layout
gradient of a map loss, batch 2, paper-resnet 32² | ten lines, usual layout
5 steps of the cosine attack, batch 2, paper-resnet 32² (at most 1.5 times the time) | 5 gradients, usual layout
5 steps of topk-sharp, batch 2, paper-resnet 32² (at most 1.5 times the time) | 5 gradients, usual layout
PGD, 5 steps, batch 2, paper-resnet 32² | ten lines, channels_last
gradient of a map loss, batch 2, paper-resnet 32² | ten lines, channels_last
5 steps of the cosine attack, batch 2, paper-resnet 32² (at most 1.5 times the time) | 5 gradients, channels_last
5 steps of topk-sharp, batch 2, paper-resnet 32² (at most 1.5 times the time) | 5 gradients, channels_last
audit, 2 images, 4 points, paper-cnn | captum and a loop over images
ERAR inner step, paper-cnn
IFIA iteration, paper-cnn
PGD, paper-resnet 32²
gradient of a map loss, paper-resnet 32²
IG, points
IG, batch
IG, image side
"""


def test_quick_bench_runs_every_comparison(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert main(["bench", "--quick"]) == 0
    *tables, memory, _ = capsys.readouterr().out.strip().splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in tables if line.startswith("│")]
    rows = [" | ".join(row[: 2 if len(row) == 8 else 1]) for row in cells]  # only comparisons have a peer
    assert rows == BENCH_ROWS.strip().splitlines()
    assert memory.startswith("peak memory, step of an attack on maps, 2 images, wrn-16-2 32²: ")
    assert "MiB (target: at most 4,096)" in memory


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
        (["evaluate", "nowhere", "--limit", "0"], "expected --limit >= 1, got 0; without it, the config decides"),
        (["evaluate", "nowhere", "--pgd-limit", "0"], "expected --pgd-limit >= 1, got 0"),
        (["evaluate", "nowhere", "--strongest-limit", "-1"], "expected --strongest-limit >= 1, got -1"),
        (["reproduce", "digits", "--limit", "0"], "expected --limit >= 1, got 0"),
        (["reproduce", "mnst"], "a table from mnist"),
        (["reproduce", "digits", "--methods", "maddry"], "methods from natural"),
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


@pytest.mark.parametrize("command", ["audit", "harden", "train", "evaluate", "report", "reproduce"])
def test_the_help_names_types_that_users_know(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    assert "{None" not in said
    assert "(default: None)" not in said
    assert "|{[" not in said


@pytest.mark.parametrize(("words", "said"), [("evaluate runs/a b", "go on with"), ("data list", "start again with")])
def test_ctrl_c_names_the_command(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.cli._run", interrupt)
    assert main(words.split()) == 130
    assert capsys.readouterr().err == f"holdfast: interrupted; {said}: holdfast {words}\n"
