"""Control maps: the image itself and shuffled weights, in rows, summary and report."""

import sys
from pathlib import Path

import pytest
import torch
from tests.trained import digits, trained
from torch import nn

import holdfast as hf
from holdfast import metrics
from holdfast.engine.passes import count_passes
from holdfast.evaluation.controls import control_scores, image_map, shuffled_weights
from holdfast.metrics import METRICS
from holdfast.recipes import AttackSettings, make_attacks
from holdfast.report import view_runs
from holdfast.report.html import report_html
from holdfast.report.write import all_tables
from holdfast.runs import Examples, read_json, read_run
from holdfast.runs.controls import control_columns

IG = hf.IntegratedGradients(steps=5)


def protocol(names: tuple[str, ...] = ("ifia-topk", "random"), **changes) -> hf.EvaluationProtocol:
    attacks = make_attacks(AttackSettings(eps=0.1, steps=3, k=12, attribution=IG), names)
    return hf.EvaluationProtocol(**({"attacks": attacks, "limit": 12, "panels": 0} | changes))


def test_the_image_as_a_map_by_hand() -> None:
    x = torch.tensor([[[[0.1, 0.2]], [[0.3, 0.0]]]])  # two channels: sums 0.4 and 0.2
    torch.testing.assert_close(image_map(x), torch.tensor([[[4 / 3, 2 / 3]]]))


def test_scores_by_hand() -> None:
    x, moved = torch.tensor([[[[0.1, 0.2, 0.3, 0.4]]]]), torch.tensor([[[[0.1, 0.2, 0.4, 0.3]]]])
    found = control_scores(torch.tensor([[[4.0, 3.0, 2.0, 1.0]]]), x, moved, torch.tensor([0]), k=1)
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {"image_top_k": 0.0, "image_kendall": (5 - 1) / 6, "image_agreement": -1.0}
    )


def test_shuffled_weights_have_their_own_maps() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:6] for part in digits("test"))
    moved, other = (x + 0.1 * torch.rand_like(x)).clamp(0, 1), shuffled_weights(model, seed=0)
    maps = hf.saliency_map(IG(model, x, y))
    found = control_scores(maps, x, moved, y, k=12, attribution=IG, shuffled=other)
    assert set(found) == set(control_columns())
    before, after = (hf.saliency_map(IG(other, image, y)) for image in (x, moved))
    torch.testing.assert_close(found["shuffled_kendall"], metrics.kendall_tau(before, after))
    torch.testing.assert_close(found["shuffled_agreement"], metrics.spearman_rho(maps, before))


def test_each_metric_has_its_own_image_whose_maps_are_computed_once() -> None:
    model, (x, y) = trained("digits-cnn", 8), (part[:6] for part in digits("test"))
    first, other = (x + 0.1 * torch.rand_like(x)).clamp(0, 1), shuffled_weights(model, seed=0)
    second = torch.cat([first[:4], first[4:].flip(3)])  # two of six are other images
    maps = hf.saliency_map(IG(model, x, y))
    images = {"top_k": first, "kendall": second}
    with count_passes() as counter:
        found = control_scores(maps, x, first, y, k=12, images=images, attribution=IG, shuffled=other)
    assert counter.passes == 2 * 5 * (6 + 6 + 2)
    for control, map_of in (("image", image_map), ("shuffled", lambda part: hf.saliency_map(IG(other, part, y)))):
        before, one, two = map(map_of, (x, first, second))
        torch.testing.assert_close(found[f"{control}_top_k"], metrics.top_k_intersection(before, one, k=12))
        torch.testing.assert_close(found[f"{control}_kendall"], metrics.kendall_tau(before, two), atol=1e-6, rtol=0)


def test_value_and_control_of_a_row_are_those_of_one_image() -> None:
    model, data = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    strong = hf.recipes.strongest(eps=0.1, k=12, ig_steps=5, passes=300)
    done = hf.evaluate(model, data, protocol(attacks={"strongest": strong}, limit=8))
    part = data.stratified(8, seed=0)
    x, y = hf.data.to_float(part.x), part.y
    result = strong.run(model, x, y, keys=hf.make_keys(0, part.ids))
    image = result.images_of("kendall")
    assert not torch.equal(image, result.x_adv)
    expected, of_top_k = (metrics.kendall_tau(image_map(x), image_map(one)) for one in (image, result.x_adv))
    assert not torch.allclose(expected, of_top_k)
    rows = {row.id: row for row in done.rows if row.outcome == "attacked"}
    assert rows
    for place, example in enumerate(part.ids.tolist()):
        if example in rows:
            assert rows[example].score("kendall") == pytest.approx(result.worst.kendall[place].item())
            assert rows[example].controls["image_kendall"] == pytest.approx(expected[place].item())


def test_rows_summary_tables_and_page(tmp_path: Path) -> None:
    model, data = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    done = hf.evaluate(model, data, protocol(), out=tmp_path)
    right = [row for row in done.rows if row.outcome != "misclassified"]
    assert all(set(row.controls) == set(control_columns()) for row in right if row.attack == "ifia-topk")
    assert all({name.split("_")[0] for name in row.controls} == {"image"} for row in right if row.attack == "random")
    assert all(not row.controls for row in done.rows if row.outcome == "misclassified")
    assert Examples(tmp_path / "examples.csv").read().rows == done.rows
    stored = read_json(tmp_path / "summary.json")["attacks"]["ifia-topk"]
    assert stored["controls"]["image"]["kendall"]["n"] == stored["kendall"]["n"]
    assert stored["k"] == 12
    assert stored["chance"]["top_k"] == pytest.approx(12 / 64)
    assert stored["chance"].keys() == {name for name, metric in METRICS.items() if metric.chance}
    views = view_runs([read_run(tmp_path)])
    (table,) = (table for table in all_tables(views) if table.name == "controls-digits")
    assert [row[2].value for row in table.rows] == [
        "network",
        "image itself",
        "shuffled weights",
        "network",
        "image itself",
    ]
    page = report_html(views)
    assert "Control maps" in page
    assert "two random maps" in page


def test_shuffled_weights_are_measured_under_the_attack_that_decides_too() -> None:
    model, data = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    attacks = protocol(("ifia-topk", "random")).attacks
    attacks["strongest"] = hf.recipes.strongest(eps=0.1, k=12, ig_steps=5, passes=300)
    done = hf.evaluate(model, data, protocol(attacks=attacks, limit=6))
    with_shuffled = {row.attack for row in done.rows if "shuffled_kendall" in row.controls}
    assert with_shuffled == {"ifia-topk", "strongest"}


def test_a_failed_attack_leaves_the_controls_unmoved() -> None:
    model, data = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    attacks = {"still": hf.recipes.ifia(eps=0.0, step_size=0.01, steps=1, k=12, ig_steps=3)}
    done = hf.evaluate(model, data, protocol(attacks=attacks))
    assert {row.outcome for row in done.rows} <= {"unmoved", "misclassified"}
    for row in done.rows:
        if row.outcome == "unmoved":
            assert row.controls["image_top_k"] == row.controls["shuffled_kendall"] == 1.0


def test_a_plain_function_has_no_weights_to_shuffle() -> None:
    model, data = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    done = hf.evaluate(lambda x: model(x), data, protocol())
    assert all(not name.startswith("shuffled") for row in done.rows for name in row.controls)
    assert "shuffled" not in done.summary["attacks"]["ifia-topk"]["controls"]


class Uncopyable(nn.Module):
    """A network with a tensor that is not a leaf, which PyTorch refuses to copy."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.scale = net, nn.Parameter(torch.ones(1))
        self.derived = 2 * self.scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def test_a_network_that_cannot_be_copied_is_still_evaluated() -> None:
    data = hf.data.load("digits", split="test")
    done = hf.evaluate(Uncopyable(trained("digits-cnn", 8)), data, protocol())
    attack = done.summary["attacks"]["ifia-topk"]
    assert any("a copy of the network has no map" in text for text in attack["warnings"])
    assert set(attack["controls"]) == {"image"}


def test_a_table_without_control_columns_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = trained("digits-cnn", 8), hf.data.load("digits", split="test")
    with monkeypatch.context() as older:
        older.setattr("holdfast.runs.rows.control_columns", tuple)
        older.setattr("holdfast.runs.summary.control_columns", tuple)
        older.setattr(sys.modules["holdfast.evaluation.batch"], "control_scores", lambda *args, **options: {})
        before = hf.evaluate(model, data, protocol(limit=6), out=tmp_path)
    assert "image_kendall" not in (tmp_path / "examples.csv").read_text()
    done = hf.evaluate(model, data, protocol(limit=12), out=tmp_path)
    assert done.rows[: len(before.rows)] == before.rows
    assert done.rows == Examples(tmp_path / "examples.csv").read().rows  # what the summary says is on the disk
    assert all("controls" not in attack for attack in done.summary["attacks"].values())
