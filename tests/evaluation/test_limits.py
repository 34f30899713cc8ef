"""Attacks may take fewer images than the others; rows of attacks that an earlier call ran are kept."""

from pathlib import Path

import pytest

import holdfast as hf


def protocol(*names: str, limits: dict[str, int]) -> hf.EvaluationProtocol:
    settings = hf.recipes.AttackSettings(eps=0.1, steps=2, k=12, ig_steps=3)
    attacks = hf.recipes.make_attacks(settings, names)
    return hf.EvaluationProtocol(attacks=attacks, limit=20, limits=limits, panels=0, batch_size=7)


def test_an_attack_takes_a_part_of_the_images_and_keeps_their_rows(tmp_path: Path) -> None:
    model, data = hf.Classifier(hf.models.build("digits-cnn", seed=0)), hf.data.load("digits", split="test")
    both = ("ifia-topk", "random")
    everything = hf.evaluate(model, data, protocol(*both, limits={}))
    limited = hf.evaluate(model, data, protocol(*both, limits={"ifia-topk": 10}), out=tmp_path)
    assert [sum(row.attack == name for row in limited.rows) for name in both] == [10, 20]
    expected = {(row.attack, row.id): row.score("kendall") for row in everything.rows}
    for row in limited.rows:
        assert row.score("kendall") == pytest.approx(expected[row.attack, row.id], abs=1e-5)
    again = hf.evaluate(model, data, protocol("random", limits={}), out=tmp_path)
    assert set(again.summary["attacks"]) == set(both)
