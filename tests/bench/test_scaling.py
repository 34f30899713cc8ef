"""The cost of the tables: counted passes against those worked out by hand, and the arithmetic of waves and machines."""

import runpy
import sys
from pathlib import Path

import pytest
import torch
from tests.config.test_equal_passes import EQUAL

import holdfast as hf
from holdfast.bench import scaling
from holdfast.bench.scaling import (
    RunCost,
    TableCost,
    _small,
    evaluation_passes,
    flops_per_pass,
    longest_load,
    passes_and_ratio,
    run_cost,
    table_cost,
)
from holdfast.config import complete, make_config
from holdfast.engine.passes import count_passes
from holdfast.experiment.tables import TABLES


def config(preset: str, **changes: str):
    return complete(make_config(preset, overrides=[(key.replace("__", "."), v) for key, v in changes.items()]))


def test_a_natural_step_is_one_pass_forward_and_one_back() -> None:
    passes, ratio = passes_and_ratio(config("mnist/natural:paper"))
    assert passes == 2
    # forward 1, gradients of all weights 1, gradients of the layers' inputs 1 except for the first layer: 3 / 2
    assert 1.4 < ratio < 1.5


def test_without_pytorchs_private_names_the_ratio_is_that_of_a_natural_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils._python_dispatch", None)
    assert passes_and_ratio(config("mnist/natural:paper")) == (2, 1.5)


def test_without_the_operation_of_an_overload_the_ratio_is_that_of_a_natural_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert scaling._packet(torch.ops.aten.mm.default) is torch.ops.aten.mm
    assert scaling._packet(object()) is None
    monkeypatch.setattr(scaling, "_packet", lambda func: None)
    assert passes_and_ratio(config("mnist/natural:paper")) == (2, 1.5)


def test_a_step_of_madry_has_two_passes_per_attack_step() -> None:
    passes, _ = passes_and_ratio(config("mnist/madry:paper"))
    assert passes == pytest.approx(40 * 2 + 2, abs=0.2)


def test_flops_of_the_networks() -> None:
    # WRN-28-10 has 5.25 billion multiply-adds on 32 x 32 (Zagoruyko and Komodakis); 128 x 128 has 16 times as many.
    small, large = (flops_per_pass(config(f"{data}-wrn/natural:paper")) for data in ("gtsrb", "flower17"))
    assert small == pytest.approx(2 * 5.25e9, rel=0.01)
    assert large == pytest.approx(16 * small, rel=0.01)


def test_evaluation_passes_by_hand() -> None:
    few = {"evaluate__limit": "10", "evaluate__pgd__limit": "20", "evaluate__attacks": '["random"]'}
    found = {s: evaluation_passes(config("mnist/natural:paper", evaluate__ifia__steps=s, **few)) for s in ("10", "60")}
    # a step of the random control judges one image with a map of 100 points, two passes each, and its prediction
    assert (found["60"] - found["10"]) / 50 / 10 == pytest.approx(2 * 100 + 1, abs=1.5)
    more = config("mnist/natural:paper", evaluate__ifia__steps="10", **{**few, "evaluate__pgd__limit": "30"})
    assert (evaluation_passes(more) - found["10"]) / 10 == pytest.approx(2 * 100 + 2, abs=2)  # PGD with 100 steps


def test_the_strongest_attack_takes_the_passes_of_its_budget() -> None:
    few = {"evaluate__limit": "10", "evaluate__strongest__limit": "4", "evaluate__strongest__passes": "600"}
    without = {"evaluate__attacks": '["random"]'}
    two = {"evaluate__attacks": '["strongest", "strongest-true-logit", "random"]'}
    preset = "mnist/natural:paper"
    assert evaluation_passes(config(preset, **few, **two)) - evaluation_passes(config(preset, **few, **without)) == 4800
    model, x, y, keys = _small(config(preset), 2)
    y = model.eval()(x).argmax(1)
    with count_passes() as counter:
        hf.recipes.strongest(eps=1e-6, k=85, passes=600).run(model, x, y, keys=keys)
    assert 0.8 * 600 < counter.passes / 2 < 1.05 * 600


def test_counted_passes_equal_those_of_a_preset_with_a_known_number() -> None:
    run = run_cost("gtsrb/erar:cpu", measured=False)
    assert run.train_passes == pytest.approx(EQUAL["gtsrb"][0], rel=0.02)
    assert run.evaluation_passes == 0


def test_hours_by_hand() -> None:
    def run(flops: float) -> RunCost:
        names = {"preset": "a", "network": "b", "passes_per_example": 1.0, "ratio": 1.0, "evaluation_passes": 0.0}
        return RunCost(**names, train_passes=flops, flops_per_pass=1.0)

    table = TableCost(name="t", tier="paper", waves=((run(3600.0),), (run(7200.0), run(3600.0))))
    assert table.flops == 14_400
    assert table.hours(1, 1.0) == 4
    assert table.hours(2, 1.0) == 3  # 1 for the first wave, then 2
    assert table.hours(2, 2.0) == 1.5
    assert table.hours(4, 1.0, seeds=2) == 3
    assert longest_load([1.0], 8) == 1


def test_every_table_has_a_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.bench import scaling

    zero = {"network": "", "passes_per_example": 0.0, "ratio": 1.0, "evaluation_passes": 0.0, "flops_per_pass": 1.0}
    monkeypatch.setattr(scaling, "run_cost", lambda preset, measured: RunCost(preset=preset, train_passes=1.0, **zero))
    for name, table in TABLES.items():
        cost = table_cost(name)
        assert cost.tier == ("paper" if table.in_paper else "cpu")
        assert len(cost.runs) >= len(table.datasets) * 2


def test_the_script_names_tables_without_the_tier(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.setattr(sys, "argv", ["scaling.py", "gtsrb-wrn", "spearman", "--tier", "released-code"])
    runpy.run_path(str(root / "benchmarks" / "scaling.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "no presets of tier released-code: gtsrb-wrn, spearman" in printed
    assert "| gtsrb-wrn" not in printed


def test_the_script_prints_the_columns_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[2]
    script = runpy.run_path(str(root / "benchmarks" / "scaling.py"))
    counts = {"passes_per_example": 2.0, "ratio": 1.5, "train_passes": 2e9, "evaluation_passes": 6e9}
    run = RunCost(preset="mnist/natural:paper", network="paper-cnn", flops_per_pass=1e9, **counts)
    table = TableCost(name="mnist", tier="paper", waves=((run,) * 5,))
    script["print_tables"]([table], 1.0)
    script["print_presets"]([table])
    printed = capsys.readouterr().out.splitlines()
    heads, rows = printed[::3], printed[2::3]
    documented = (root / "docs" / "scaling.md").read_text().splitlines()
    assert [head in documented for head in heads] == [True, True]
    # 9e18 FLOPs a run at 1 TFLOP/s are 2,500 hours; 5 runs, or 50 with ten seeds, on as many GPUs
    assert rows == [
        "| mnist | 5 | 12,500 | 2,500 h | ≥ 1,560 h | 2,500 h for 10 seeds |",
        "| mnist/natural | 1 | 2 | 1.50 | 2e+09 | 6e+09 | 9,000 |",
    ]
