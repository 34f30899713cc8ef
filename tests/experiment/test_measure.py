"""The protocol of an evaluation: noise on the map of each attack, and the attack of the quality measures."""

from pathlib import Path

import pytest
from tests.trained import trained

import holdfast as hf
from holdfast.attacks import StrongestAttack
from holdfast.config import config_text, make_config, preset_names
from holdfast.evaluation.protocol import tensors
from holdfast.evaluation.quality import map_quality
from holdfast.experiment.jobs import Job
from holdfast.experiment.measure import MeasureOptions, attack_names, measure, protocol_of, quality_job
from holdfast.experiment.quality import quality_attack
from holdfast.experiment.run import run_training
from holdfast.runs.names import control_of


def test_noise_and_attack_have_one_map() -> None:
    changes = [("evaluate.strongest.limit", "7"), ("evaluate.strongest.ig_steps", "9"), ("evaluate.ifia.ig_steps", "8")]
    protocol = protocol_of(make_config("digits/natural", overrides=changes), MeasureOptions())
    attacks = protocol.attacks
    for name in ("strongest", "ifia-topk"):
        assert attacks[control_of(name, attacks)].attribution == attacks[name].attribution
    assert attacks["random-centred"].attribution == hf.IntegratedGradients(steps=9, score=hf.centred_logit)
    assert attacks["random"].attribution == hf.IntegratedGradients(steps=8)  # as in folders that are already measured
    noise, centred = (attacks[name].pgd for name in ("random", "random-centred"))
    assert (noise.steps, noise.step_size, noise.ball) == (centred.steps, centred.step_size, centred.ball)
    assert protocol.limits["random-centred"] == protocol.limits["strongest"] == 7  # the same images


def test_every_preset_with_the_strongest_attack_has_its_control() -> None:
    for preset in preset_names():
        names = attack_names(make_config(preset), MeasureOptions())
        assert ("strongest" in names) == ("random-centred" in names), preset


def test_without_an_attack_on_the_centred_logit_there_is_no_noise_on_it() -> None:
    config = make_config("digits/natural")
    assert attack_names(config, MeasureOptions(strongest=False)) == ("ifia-topk", "random")
    assert attack_names(config, MeasureOptions(as_before=True)) == ("ifia-topk", "ifia-ensemble", "random")
    with_universal = attack_names(config, MeasureOptions(strongest=False, universal=10))
    assert with_universal == ("ifia-topk", "random", "random-centred")


def test_a_run_from_before_there_was_this_noise_is_still_the_run_of_its_preset(tmp_path: Path) -> None:
    job = Job(preset="flower17/natural:cpu", folder=tmp_path)
    for attacks, accepted in (('["ifia-topk", "strongest", "random"]', True), ('["ifia-topk", "random"]', False)):
        config = make_config(job.preset, overrides=[("evaluate.attacks", attacks)])
        (tmp_path / "config.toml").write_text(config_text(config))
        if accepted:
            job.check()
            continue
        with pytest.raises(hf.InputError, match="another evaluate"):
            job.check()


def test_quality_is_that_of_the_decisive_attack_on_its_images() -> None:
    changes = {
        "ifia.steps": 1,
        "ifia.ig_steps": 2,
        "strongest.passes": 60,
        "strongest.ig_steps": 3,
        "strongest.limit": 3,
    }
    overrides = [(f"evaluate.{key}", str(value)) for key, value in changes.items()]
    config, options = make_config("digits/natural", overrides=overrides), MeasureOptions(limit=8)
    model, data, told = trained("digits-cnn", 8), hf.data.load("digits", split="test"), []
    protocol = protocol_of(config, options)
    job = quality_job(model, data, protocol, config)
    found = job.run(lambda what, *counts: told.append(counts))
    attack = protocol.attacks["strongest"]
    part = data.stratified(8, seed=0).stratified(3, seed=0)
    x, y, keys = tensors(part, 0, None)
    expected = map_quality(model, x, y, attack.attribution, keys=keys, attack=attack, samples=1)
    assert (model(x).argmax(1) == y).all()
    for name in ("adv_insertion", "attacked_sensitivity"):
        assert found[name]["n"] == 3
        assert found[name]["median"] == pytest.approx(getattr(expected, name).median().item(), abs=1e-4)
    assert found["insertion"]["n"] == found["max_sensitivity"]["n"] == 8
    assert told[-1] == (8, 8)


def test_quality_uses_the_images_that_the_same_call_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"evaluate.limit": 6, "evaluate.strongest.limit": 3, "evaluate.strongest.passes": 60, "train.steps": 1}
    changes |= {"evaluate.ifia.steps": 1, "evaluate.ifia.ig_steps": 2, "evaluate.strongest.ig_steps": 3}
    config = make_config("digits/natural", overrides=[(key, str(value)) for key, value in changes.items()])
    run_training(config, tmp_path / "run", progress=False)
    runs = []
    attack = StrongestAttack.run
    monkeypatch.setattr(StrongestAttack, "run", lambda *args, **more: runs.append(1) or attack(*args, **more))
    options = MeasureOptions(quality=True, pgd_limit=2)
    together = measure(tmp_path / "run", options)
    assert len(together.perturbed) == 3
    once = len(runs)
    assert once == 2  # one batch of the strongest attack on the centred logit, and one on the true logit
    apart = measure(tmp_path / "run", options)  # every row exists, so nothing was found in this call
    assert apart.perturbed == {}
    assert len(runs) == once + 1
    assert together.summary["quality"] == apart.summary["quality"]
    assert not (tmp_path / "run" / "perturbed.npz").exists()


def test_the_attack_of_the_quality_measures() -> None:
    config = make_config("digits/natural")
    for options, name in (
        (MeasureOptions(), "strongest"),
        (MeasureOptions(strongest=False), "ifia-topk"),
        (MeasureOptions(as_before=True), "ifia-ensemble"),
    ):
        assert quality_attack(protocol_of(config, options)) == name
    noise = make_config("digits/natural", overrides=[("evaluate.attacks", '["random"]')])
    assert quality_attack(protocol_of(noise, MeasureOptions())) == ""
