"""The clean map and its completeness gap are computed once per image, however many attacks look at them."""

import torch
from tests import trained

import holdfast as hf
from holdfast.engine.passes import count_passes
from holdfast.recipes import AttackSettings, make_attacks


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
