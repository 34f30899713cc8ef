"""What an audit costs is said after its first batch, a time limit is kept, and Ctrl-C leaves a report."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.doors.material import digits, digits_file, network

import holdfast as hf
from holdfast.cli import main
from holdfast.commands.audit import _fits, _without_minutes
from holdfast.engine.passes import PassCounter, add_passes, count_passes
from holdfast.evaluation import Evaluation
from holdfast.evaluation.audit import check_audit
from holdfast.evaluation.audit_settings import budget_of, first_batch
from holdfast.evaluation.audit_time import fit_to_minutes, minutes_needed
from holdfast.evaluation.cost import CostEstimate, fit_images_and_steps
from holdfast.recipes import AttackSettings, make_attacks
from holdfast.runs import read_run
from holdfast.storage.json_files import read_json


def test_the_cost_is_said_once_after_the_first_batch() -> None:
    counter, said, now = PassCounter(), [], iter([0.0, 5.0, 25.0])
    cost = CostEstimate(("ifia-topk", "random"), counter, say=said.append, clock=lambda: next(now))
    cost.progress("accuracy", 0, 64)
    counter.passes = 1_000
    cost.progress("accuracy", 64, 64)
    cost.progress("ifia-topk", 16, 64)
    assert not said
    counter.passes = 33_000
    cost.progress("random", 16, 64)
    assert said == [
        "16 of 64 images took 20 s: 2,000 example-passes per image, 1,600 per second; about 1.0 minutes left"
    ]
    cost.progress("random", 32, 64)
    assert len(said) == 1


def test_the_cost_of_processes_that_attack_a_batch_each() -> None:
    counter, said, now = PassCounter(), [], iter([0.0, 20.0])
    cost = CostEstimate(("random",), counter, say=said.append, clock=lambda: next(now), batch_size=16)
    cost.progress("accuracy", 64, 64)
    counter.passes = 32_000  # of the 16 images of this process; the other process has attacked 16, too
    cost.progress("random", 32, 64)
    assert said[0].startswith("32 of 64 images took 20 s: 2,000 example-passes per image, 3,200 per second; about 20 s")


def test_long_work_is_estimated_from_its_first_seconds() -> None:
    now, said = [0.0], []
    with count_passes() as counter:
        cost = CostEstimate(("random",), counter, say=said.append, clock=lambda: now[0], images=16, budget=2000)
        for now[0] in (0.0, 10.0):
            add_passes(300, 1)
        assert not said
        for now[0] in (20.0, 30.0):  # 30 passes per second so far; 32,000 - 600 are left
            add_passes(16, 2)
    line = "about 17.4 minutes left: 30 example-passes per second, 16 images, 2,000 passes each"
    assert said == [line]
    cost.progress("accuracy", 16, 16)
    now[0] = 90.0
    cost.progress("random", 2, 16)
    assert said[1].startswith("2 of 16 images took 60 s")


def test_short_work_needs_no_early_estimate() -> None:
    now, said = [0.0], []
    with count_passes() as counter:
        CostEstimate(("random",), counter, say=said.append, clock=lambda: now[0], images=16, budget=100)
        for now[0] in (0.0, 20.0, 40.0):
            add_passes(600, 1)
    assert said == []


def test_two_processes_share_the_budget() -> None:
    now, said = [0.0], []
    with count_passes() as counter:
        CostEstimate(("random",), counter, say=said.append, clock=lambda: now[0], images=16, budget=2000, share=0.5)
        for now[0] in (0.0, 20.0):
            add_passes(600, 1)
    assert said == ["about 8.6 minutes left: 60 example-passes per second, 16 images, 2,000 passes each"]


def test_the_budget_of_an_audit() -> None:
    assert budget_of(hf.AuditSettings(passes=700)) == 700
    assert budget_of(hf.AuditSettings(passes=700, maps=("ig", "gradcam"))) == 1400
    assert budget_of(hf.AuditSettings(strong=False)) is None
    assert budget_of(hf.AuditSettings(attacks=("strongest", "ifia-topk"))) is None


def test_only_audits_of_large_images_start_with_a_small_batch() -> None:
    assert check_audit(network(), digits(), hf.AuditSettings(limit=2, passes=400, ig_steps=3), None).first_batch is None
    large = replace(digits(), x=torch.zeros(len(digits()), 1, 128, 128, dtype=torch.uint8))
    assert first_batch(large) == 2


@pytest.mark.parametrize(
    ("seconds", "expected"), [(1e9, (64, 50)), (100.0, (20, 50)), (50.0, (20, 25)), (4.0, (8, 5)), (1e-3, (1, 5))]
)
def test_images_go_before_steps(seconds: float, expected: tuple[int, int]) -> None:
    assert fit_images_and_steps(0.1, 50, 64, seconds) == expected


def test_settings_that_fit_the_time() -> None:
    settings = hf.AuditSettings(eps=0.1, steps=50, ig_steps=4, strong=False)
    slow = iter([0.0, 8.0])  # 4 images with 2 steps: a second per step on an image
    chosen = fit_to_minutes(network(), digits(), settings, 10.0, clock=lambda: next(slow))
    assert (chosen.limit, chosen.steps) == (20, 22)
    fast = iter([0.0, 0.008])
    chosen = fit_to_minutes(network(), digits(), settings, 10.0, clock=lambda: next(fast))
    assert (chosen.limit, chosen.steps) == (64, 50)
    strong = hf.AuditSettings(eps=0.1, ig_steps=10)
    slow = iter([0.0, 1e9])
    chosen = fit_to_minutes(network(), digits(), strong, 10.0, clock=lambda: next(slow))
    assert chosen.limit == 1
    assert 600 < chosen.passes < 1000  # what the fewest steps take with 10 points
    slow = iter([0.0, 1e9])
    assert (
        fit_to_minutes(network(), digits(), replace(strong, ig_steps=2), 10.0, clock=lambda: next(slow)).passes == 600
    )
    slow = iter([0.0, 1e9])
    chosen = fit_to_minutes(network(), digits(), replace(strong, passes=300), 10.0, clock=lambda: next(slow))
    assert (chosen.limit, chosen.passes) == (1, 300)  # never more than was asked for
    clock = iter([0.0, 10.0])  # for 5 images with 2 steps; 64 images with 50 steps in 0.9 of the time
    assert minutes_needed(network(), digits(), settings, clock=lambda: next(clock)) == pytest.approx(64 * 50 / 60 / 0.7)
    with pytest.raises(hf.InputError, match="minutes > 0"):
        fit_to_minutes(network(), digits(), settings, 0.0)


def test_accuracy_is_measured_on_a_sample_with_the_attacked_images() -> None:
    attacks = make_attacks(AttackSettings(eps=0.1, steps=1, k=12, ig_steps=2), ["random"])
    protocol = hf.EvaluationProtocol(attacks=attacks, limit=12, pgd_limit=20, accuracy_limit=60, panels=0)
    done = hf.evaluate(network(), digits(), protocol)
    assert 60 <= done.summary["natural_accuracy_n"] <= 72
    assert len(done.rows) == 12
    whole = hf.EvaluationProtocol(attacks=attacks, limit=12, panels=0)
    assert hf.evaluate(network(), digits(), whole).summary["natural_accuracy_n"] == 360


def arguments(folder: Path) -> list[str]:
    words = f"audit --model tests.doors.material:network --data {digits_file(folder)} --out {folder / 'run'}"
    return [*words.split(), "--no-strong", "--ig-steps", "3", "--steps", "2", "--limit", "40", "--quiet"]


def test_the_command_says_both_denominators_and_the_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "40 images attacked, drawn from 360; accuracy" in out
    assert "on 360 images" in out
    assert "16 of 40 images took" in out
    assert "example-passes per image" in out


def test_the_command_estimates_before_the_first_batch_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.evaluation.cost.EARLY", 1e-9)
    monkeypatch.setattr("holdfast.evaluation.cost.LONG", 0.0)
    words = f"audit --model tests.doors.material:network --data {digits_file(tmp_path)} --out {tmp_path / 'run'}"
    assert main([*words.split(), "--passes", "400", "--limit", "3", "--ig-steps", "3", "--quiet"]) == 0
    early, _, after = capsys.readouterr().out.partition("3 of 3 images took")
    assert "minutes left: " in early
    assert "per second, 3 images, 400 passes each" in early
    assert after


def test_thorough_multiplies_the_passes(tmp_path: Path) -> None:
    words = f"audit --model tests.doors.material:network --data {digits_file(tmp_path)} --attacks strongest".split()
    words += ["--passes", "400", "--limit", "3", "--ig-steps", "3", "--quiet"]
    counted = []
    for folder, more in ((tmp_path / "plain", []), (tmp_path / "thorough", ["--thorough"])):
        with count_passes() as counter:
            assert main([*words, "--out", str(folder), *more]) == 0
        counted.append(counter.passes)
        settings = read_json(folder / "summary.json")["audit"]["settings"]
        assert settings["passes"] == (4000 if more else 400)
    # the two audits differ only in the strongest attack, which uses almost all of 3 x 3,600 more passes
    assert 0.5 * 3 * 3600 < counted[1] - counted[0] <= 3 * 3600


def test_minutes_choose_images_and_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(tmp_path), "--minutes", "5"]) == 0
    assert "40 images with 2 steps each fit into 5 minutes" in capsys.readouterr().out


def test_ctrl_c_leaves_a_report_and_the_command_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments(tmp_path)
    monkeypatch.setattr("sys.argv", ["holdfast", *words])
    real, calls = CostEstimate.progress, []

    def interrupt(self: CostEstimate, what: str, done: int, total: int) -> None:
        real(self, what, done, total)
        calls.append(what)
        if calls.count("random") == 1 and what == "random":
            raise KeyboardInterrupt

    monkeypatch.setattr(CostEstimate, "progress", interrupt)
    assert main(words) == 130
    said = capsys.readouterr().err
    assert "interrupted after 16 images; report so far:" in said
    assert f"go on with: holdfast audit --model tests.doors.material:network --data {tmp_path}" in said
    assert "Audit of" in (tmp_path / "run" / "report.html").read_text()
    monkeypatch.setattr(CostEstimate, "progress", real)
    assert main(words) == 0
    assert len({row.id for row in read_run(tmp_path / "run").examples.rows}) == 40


def test_the_search_uses_few_points_and_the_score_all() -> None:
    def audited(**changes: object) -> tuple[int, Evaluation]:
        settings = hf.AuditSettings(eps=0.1, steps=4, ig_steps=50, limit=12, strong=False, **changes)
        with count_passes() as counter:
            done = hf.audit(network(), digits(), settings)
        return counter.passes, done.evaluation

    few, fast = audited()
    many, full = audited(search_ig_steps=50)
    assert few < 0.45 * many
    for one, other in zip(fast.rows, full.rows, strict=True):
        assert one.completeness_gap == other.completeness_gap  # the full map of the clean image
    assert audited(map="gradient")[1].summary["n"] == 12  # one point: nothing to save


@pytest.mark.parametrize("given", [["--minutes", "5"], ["--minutes=5"]])
def test_the_command_that_goes_on_has_the_settings_that_were_chosen(given: list[str]) -> None:
    settings = hf.AuditSettings(limit=7, steps=9)
    words = ["audit", "--k", "5", *given, "--out", "a"]
    rest = ["audit", "--k", "5", "--out", "a", "--limit", "7"]
    assert _without_minutes(words, settings) == [*rest, "--passes", "2000"]
    assert _without_minutes(words, replace(settings, strong=False)) == [*rest, "--steps", "9"]
    assert _without_minutes(["audit", "--k", "5"], settings) == ["audit", "--k", "5"]
    assert _without_minutes(words, replace(settings, attacks=("ifia-topk", "random"))) == [*rest, "--steps", "9"]


def test_passes_that_are_multiplied_already_are_not_multiplied_again() -> None:
    settings = hf.AuditSettings(limit=7, passes=20000)
    words = ["audit", "--thorough", "--minutes", "5", "--out", "a"]
    assert _without_minutes(words, settings) == ["audit", "--out", "a", "--limit", "7", "--passes", "20000"]
    assert _without_minutes(words[:2] + words[4:], settings) == ["audit", "--thorough", "--out", "a"]


def test_one_image_is_not_plural() -> None:
    one = hf.AuditSettings(limit=1, passes=600)
    assert _fits(one, 1) == "1 image with 600 passes fits into 1 minute"
    assert _fits(replace(one, limit=2), 0.5) == "2 images with 600 passes each fit into 0.5 minutes"
