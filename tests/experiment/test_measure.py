"""The protocol of an evaluation: noise on the map of every attack that it is the control of."""

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.config import config_text, make_config, preset_names
from holdfast.experiment.jobs import Job
from holdfast.experiment.measure import MeasureOptions, attack_names, protocol_of
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
