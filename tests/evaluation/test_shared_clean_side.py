"""The clean map and its completeness gap are computed once per image, however many attacks look at them."""

import torch
from tests import trained
from tests.oracles import tiny_net

import holdfast as hf
from holdfast.engine.passes import count_passes
from holdfast.recipes import AttackSettings, make_attacks
from holdfast.report import view_runs
from holdfast.report.html import report_html
from holdfast.runs import read_run


def passes(names: list[str]) -> int:
    model = trained.trained("digits-cnn", 8)
    data = hf.data.load("digits", split="test").subset(range(10))
    attacks = make_attacks(AttackSettings(eps=0.1, steps=1, k=12, ig_steps=50, search_ig_steps=2), names)
    with count_passes() as counter:
        hf.evaluate(model, data, hf.EvaluationProtocol(attacks=attacks, panels=0))
    return counter.passes


def test_clean_maps_are_computed_once_for_all_attacks() -> None:
    one, two, three = (passes(["ifia-topk", "ifia-cosine", "ifia-center"][:n]) for n in (1, 2, 3))
    clean = 10 * 50 * 2  # a map of 50 points, forward and backward, for each of ten images
    assert one > clean
    # a further attack costs its search and the map of the image it found, but no clean map
    assert two - one < clean + 10 * 60
    assert three - two < clean + 10 * 60
    assert one - (two - one) > 0.8 * clean


def test_the_gap_is_that_of_the_clean_map() -> None:
    model = trained.trained("digits-cnn", 8)
    data = hf.data.load("digits", split="test").subset(range(6))
    ig = hf.IntegratedGradients(steps=10)
    attacks = make_attacks(AttackSettings(eps=0.1, steps=1, k=12, attribution=ig), ["ifia-topk", "random"])
    done = hf.evaluate(model, data, hf.EvaluationProtocol(attacks=attacks, panels=0))
    expected = ig.completeness_gap(model, hf.data.to_float(data.x), data.y)
    for row in done.rows:
        place = data.ids.tolist().index(row.id)
        if row.outcome == "misclassified":
            assert row.completeness_gap is None
        else:
            torch.testing.assert_close(torch.tensor(row.completeness_gap), expected[place], rtol=0, atol=1e-4)


def test_steps_without_a_gradient_reach_rows_summary_and_report(tmp_path) -> None:
    """All mass of the clean map lies inside the top k at the start, so the first step has no gradient."""
    net, x = tiny_net().float(), torch.zeros(6, 1, 6, 6)
    x[:, :, 2:4, 2:4] = torch.linspace(0.5, 0.8, 6)[:, None, None, None]
    data = hf.data.from_tensors(x, net(x).argmax(1))
    attacks = {"ifia-topk": hf.recipes.ifia(eps=0.1, step_size=0.05, steps=2, k=9, ig_steps=2)}
    protocol = hf.EvaluationProtocol(attacks=attacks, panels=0)
    done = hf.evaluate(net, data, protocol, out=tmp_path)
    assert [row.steps for row in done.rows] == [2] * 6
    assert sum(row.random_steps or 0 for row in done.rows) >= 6
    assert any("had no gradient" in text for text in done.summary["attacks"]["ifia-topk"]["warnings"])
    again = hf.evaluate(net, data, protocol, out=tmp_path)  # from the rows on disk
    assert again.summary["attacks"] == done.summary["attacks"]
    assert "had no gradient" in report_html(view_runs([read_run(tmp_path)]))
