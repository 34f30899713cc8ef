"""Evaluation: rows, resume, independence of batch size, subsets, pictures, files."""

import csv
import json
from pathlib import Path

import pytest
import torch
from tests.trained import trained

import holdfast as hf
from holdfast.attacks import random_control
from holdfast.evaluation import EvaluationProtocol, evaluate
from holdfast.runs import read_json, read_run


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return trained("digits-cnn", 8)


@pytest.fixture(scope="module")
def data() -> hf.data.Dataset:
    return hf.data.load("digits", split="test")


def plan(**changes) -> EvaluationProtocol:
    ifia = hf.recipes.ifia(eps=0.1, step_size=0.03, steps=4, k=12, ig_steps=5)
    ensemble = hf.recipes.ifia_ensemble(eps=0.1, k=12, steps=2, ig_steps=3, kinds=("topk", "cosine"))
    attacks = {"ifia-topk": ifia, "ifia-ensemble": ensemble, "random": random_control(ifia)}
    settings = {"attacks": attacks, "pgd": hf.recipes.pgd(eps=0.1, steps=5), "limit": 20, "pgd_limit": 40, "panels": 4}
    return EvaluationProtocol(**(settings | {"batch_size": 8} | changes))


def test_rows_and_summary(model, data, tmp_path: Path) -> None:
    result = evaluate(model, data, plan(), out=tmp_path)
    assert len(result.rows) == 3 * 20
    summary = json.loads((tmp_path / "summary.json").read_text())
    for name in (
        "dataset",
        "method",
        "preset",
        "seed",
        "n",
        "natural_accuracy",
        "pgd_accuracy",
        "example_passes",
        "provenance",
    ):
        assert name in summary
    assert summary["natural_accuracy_n"] == 360
    assert summary["pgd_accuracy_n"] == 40
    assert summary["natural_accuracy"] > 0.9 > summary["pgd_accuracy"]
    for attack in ("ifia-topk", "ifia-ensemble", "random"):
        for metric in ("top_k", "kendall", "spearman"):
            found = summary["attacks"][attack][metric]
            assert -1 <= found["ci95"][0] <= found["median"] <= found["ci95"][1] <= 1
        assert 0 <= summary["attacks"][attack]["failed_share"] <= 1
    assert summary["attacks"]["ifia-ensemble"]["wins"]
    assert "20 of 360" in summary["limit"]
    run = read_run(tmp_path)
    assert run.panels is not None
    assert 4 <= len(run.panels.ids) <= 7


def test_natural_accuracy_is_that_of_the_network(model, data) -> None:
    result = evaluate(model, data, plan(pgd=None, panels=0))
    right = (model(hf.data.to_float(data.x)).argmax(1) == data.y).double().mean()
    assert result.summary["natural_accuracy"] == pytest.approx(float(right))
    assert result.summary["pgd_accuracy"] is None


def table(folder: Path) -> list[list[str]]:
    with (folder / "examples.csv").open() as file:
        return sorted(list(csv.reader(file))[1:])


def test_batch_size_changes_no_row(model, data, tmp_path: Path) -> None:
    sizes = {
        "large": {"batch_size": 20},
        "small": {"batch_size": 3},
        "small first": {"batch_size": 20, "first_batch": 2},
    }
    for name, size in sizes.items():
        evaluate(model, data, plan(panels=0, **size), out=tmp_path / name)
    large, *others = (table(tmp_path / name) for name in sizes)
    for other in others:
        assert [row[:6] for row in other] == [row[:6] for row in large]
        close = [abs(float(a[7]) - float(b[7])) < 0.02 for a, b in zip(other, large, strict=True) if a[7]]
        assert sum(close) >= 0.95 * len(close)  # single precision: the sign of a tiny gradient may differ


def test_the_first_rows_come_after_a_small_batch(model, data) -> None:
    seen = []
    few = plan(limit=8, first_batch=2, batch_size=4, panels=0, pgd=None, accuracy_limit=8)
    evaluate(model, data, few, on_progress=lambda what, done, total: seen.append((what, done, total)))
    assert [one for one in seen if one[0] == "random"] == [("random", 2, 8), ("random", 6, 8), ("random", 8, 8)]


def test_interrupted_evaluation_goes_on(model, data, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    evaluate(model, data, plan(), out=whole)
    calls = 0

    def interrupt(what: str, done: int, total: int) -> None:
        nonlocal calls
        calls += what == "ifia-topk"
        if calls == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, data, plan(), out=broken, on_progress=interrupt)
    assert len(table(broken)) == 3 * 8 + 8  # a batch under every attack, and the next one under the first
    evaluate(model, data, plan(), out=broken)
    assert (broken / "examples.csv").read_text() == (whole / "examples.csv").read_text()
    one, two = (read_json(folder / "summary.json") for folder in (broken, whole))
    assert {**one, "provenance": 0} == {**two, "provenance": 0}  # which says when, so it differs


def test_finished_evaluation_is_not_repeated(model, data, tmp_path: Path) -> None:
    first = evaluate(model, data, plan(panels=0), out=tmp_path)
    seen = []
    again = evaluate(model, data, plan(panels=0), out=tmp_path, on_progress=lambda what, done, total: seen.append(what))
    assert set(seen) == {"accuracy"}
    assert again.rows == first.rows


def test_rows_of_another_network_or_attack_are_never_mixed(model, data, tmp_path: Path) -> None:
    evaluate(model, data, plan(panels=0, limit=4, pgd_limit=4), out=tmp_path)
    more = evaluate(model, data, plan(panels=0, limit=8, pgd_limit=9), out=tmp_path)  # more images are fine
    assert more.summary["pgd_accuracy_n"] == 9
    assert more.summary["natural_accuracy_n"] == 360
    other = hf.models.build("digits-cnn", num_classes=10, seed=9)
    with pytest.raises(hf.DataError, match="another network"):
        evaluate(other, data, plan(panels=0, limit=8), out=tmp_path)
    weaker = {"ifia-topk": hf.recipes.ifia(eps=0.05, step_size=0.03, steps=4, k=12, ig_steps=5)}
    with pytest.raises(hf.DataError, match="another attack ifia-topk"):
        evaluate(model, data, plan(panels=0, limit=8, attacks=weaker), out=tmp_path)


def test_again_measures_only_what_has_other_settings(model, data, tmp_path: Path) -> None:
    protocol = plan(limit=6, pgd_limit=9)
    before = evaluate(model, data, protocol, out=tmp_path).rows
    weaker = hf.recipes.ifia(eps=0.05, step_size=0.02, steps=2, k=12, ig_steps=5)
    changed = plan(limit=6, pgd_limit=9, attacks=protocol.attacks | {"ifia-topk": weaker})
    with pytest.raises(hf.DataError, match=r"another attack ifia-topk; use a new folder, or .*--again"):
        evaluate(model, data, changed, out=tmp_path)
    after = evaluate(model, data, changed, out=tmp_path, again=True)
    fresh = evaluate(model, data, changed)
    assert set(after.rows) == set(fresh.rows)
    assert {r for r in after.rows if r.attack != "ifia-topk"} == {r for r in before if r.attack != "ifia-topk"}
    assert after.summary["attacks"]["ifia-topk"]["top_k"] == fresh.summary["attacks"]["ifia-topk"]["top_k"]
    assert set(evaluate(model, data, changed, out=tmp_path).rows) == set(after.rows)  # and now it belongs there
    assert torch.equal(torch.tensor(after.panels.perturbed), torch.tensor(fresh.panels.perturbed))


def test_again_does_not_mix_networks_or_attacks_on_the_prediction(model, data, tmp_path: Path) -> None:
    evaluate(model, data, plan(panels=0, limit=4, pgd_limit=4), out=tmp_path)
    stronger = plan(panels=0, limit=4, pgd_limit=4, pgd=hf.recipes.pgd(eps=0.2, steps=5))
    with pytest.raises(hf.DataError, match=r"another attack pgd.*delete examples\.csv"):
        evaluate(model, data, stronger, out=tmp_path, again=True)
    other = hf.models.build("digits-cnn", num_classes=10, seed=9)
    with pytest.raises(hf.DataError, match="another network"):
        evaluate(other, data, plan(panels=0, limit=4, pgd_limit=4), out=tmp_path, again=True)


def test_fewer_images_are_summarised_alone(model, data, tmp_path: Path) -> None:
    evaluate(model, data, plan(panels=0, limit=8, pgd_limit=9), out=tmp_path)
    fewer = evaluate(model, data, plan(panels=0, limit=4, pgd_limit=5), out=tmp_path).summary
    assert fewer["attacks"]["random"]["rows"] == 4
    assert fewer["pgd_accuracy_n"] == 5


def test_relabelled_images_are_other_images(model, data, tmp_path: Path) -> None:
    from dataclasses import replace

    evaluate(model, data, plan(panels=0, limit=4, pgd=None), out=tmp_path)
    with pytest.raises(hf.DataError, match="another images"):
        evaluate(model, replace(data, y=(data.y + 1) % 10), plan(panels=0, limit=4, pgd=None), out=tmp_path)


def test_rows_of_unknown_origin_are_not_trusted(model, data, tmp_path: Path) -> None:
    evaluate(model, data, plan(panels=0, limit=4, pgd=None), out=tmp_path)
    (tmp_path / "measured.json").unlink()
    with pytest.raises(hf.DataError, match="use a new folder"):
        evaluate(model, data, plan(panels=0, limit=4, pgd=None), out=tmp_path)


def test_torn_header_of_the_accuracies(model, data, tmp_path: Path) -> None:
    evaluate(model, data, plan(panels=0, limit=4, pgd=None), out=tmp_path)
    whole = (tmp_path / "accuracy.csv").read_text()
    (tmp_path / "accuracy.csv").write_text("id,lab")
    result = evaluate(model, data, plan(panels=0, limit=4, pgd=None), out=tmp_path)
    assert result.summary["natural_accuracy_n"] == 360
    assert (tmp_path / "accuracy.csv").read_text() == whole


def test_subset_is_stratified_and_seeded(model, data) -> None:
    rows = evaluate(model, data, plan(panels=0, limit=20)).rows
    labels = sorted(row.label for row in rows if row.attack == "random")
    assert labels == sorted(list(range(10)) * 2)
    other = evaluate(model, data, plan(panels=0, limit=20, seed=1)).rows
    assert {row.id for row in rows} != {row.id for row in other}


def test_accepts_a_loader(model, data) -> None:
    rows = evaluate(model, hf.data.Loader(data, 16), plan(panels=0)).rows
    assert len(rows) == 60


def test_diagnosis_warnings_reach_the_summary(model, data) -> None:
    blind = hf.recipes.ifia(eps=0.1, step_size=0.03, steps=3, k=12, ig_steps=5, kind="random")
    summary = evaluate(model, data, plan(attacks={"ifia-topk": blind}, panels=0, diagnose=8)).summary
    assert any("random signs" in warning for warning in summary["attacks"]["ifia-topk"]["warnings"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attacks": {"ifia-topk": hf.recipes.ifia(eps=0.1, step_size=0.03, steps=1, k=65)}}, "1 <= k <= 64"),
        ({"attacks": {"ifia-topk": hf.recipes.ifia(eps=0.1, step_size=0.03, steps=1, k=2, eval_k=0)}}, "eval_k = 0"),
        (
            {"attacks": {"ifia-topk": hf.recipes.ifia(eps=0.1, step_size=0.03, steps=1, k=2, eval_k=2.5)}},
            "whole number",
        ),
        ({"batch_size": 0}, "batch_size >= 1"),
        ({"limit": 0}, "limit >= 1, got 0; None means all images"),
        ({"limits": {"random": -1}}, "limits of random >= 1"),
        ({"accuracy_limit": 0}, "accuracy_limit >= 1"),
    ],
)
def test_wrong_settings_leave_no_folder(model, data, tmp_path: Path, changes: dict, said: str) -> None:
    with pytest.raises(hf.InputError, match=said):
        evaluate(model, data, plan(**changes), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
