"""What an audit recommends next, with commands that are right to the letter."""

from typing import Any

import pytest

from holdfast.runs.next_steps import command_line, next_steps, options_of

OWN = ["audit", "--model", "nets:build", "--weights", "w.safetensors", "--data", "images", "--out", "runs/mine"]
RUN = ["audit", "--model", "runs/natural", "--data", "images", "--limit=24"]


def audited(answer: str, *reasons: str, words: list[str] | None = None, **about: Any) -> dict[str, Any]:
    verdict = {"answer": answer, "reasons": dict.fromkeys(reasons, "why"), "attack": "ifia-topk"}
    known = {"images": 1000, "split": "all", "settings": {"eps": 8 / 255, "steps": 50}, "network": ""} | about
    attacks = {"ifia-topk": {"top_k": {"n": 12}}}
    return {"n": 24, "attacks": attacks, "audit": {**known, "verdict": verdict, "command": words or []}}


def commands(summary: dict[str, Any]) -> list[str]:
    return [step.command for step in next_steps(summary)]


def test_maps_that_are_not_robust_are_hardened_and_audited_again() -> None:
    assert commands(audited("not robust", words=OWN)) == [
        "",
        "holdfast train digits/erar_plus --model nets:build --init w.safetensors --data images "
        "--data.options.holdout 0.2 --method.settings.eps 8/255 --method.settings.step_size 0.01255 "
        "--out runs/mine-hardened",
        "holdfast audit --model nets:build --weights runs/mine-hardened/weights.safetensors --data images "
        "--out runs/mine-hardened-audit",
    ]
    assert commands(audited("partly robust", words=RUN, network="digits-cnn", split="test"))[1:] == [
        "holdfast train digits/erar_plus --model digits-cnn --init runs/natural --data images "
        "--method.settings.eps 8/255 --method.settings.step_size 0.01255 --out runs/audit-hardened",
        "holdfast audit --model runs/audit-hardened --data images --limit 24 --out runs/audit-hardened-audit",
    ]


def test_normalisation_and_size_are_passed_on() -> None:
    words = [*OWN, "--mean", "0.4", "0.5", "0.6", "--std", "0.2", "--size", "64"]
    harden = commands(audited("not robust", words=words))[1]
    assert "--data.options.size 64 --model.mean '[0.4, 0.5, 0.6]' --model.std 0.2" in harden
    held_out = commands(audited("not robust", words=[*OWN, "--holdout", "50", "--model-args", "width=2", "deep=1"]))[1]
    assert "--model nets:build --model-args width=2 deep=1 --init w.safetensors" in held_out
    assert "--data.options.holdout 50" in held_out


def test_a_run_on_its_own_data_uses_the_preset_of_that_data() -> None:
    words = ["audit", "--model", "runs/mnist/natural"]
    about = {"network": "paper-cnn", "dataset": "mnist", "split": "test"}
    assert commands(audited("not robust", words=words, **about))[1:] == [
        "holdfast train mnist/erar_plus --init runs/mnist/natural --method.settings.eps 8/255 "
        "--method.settings.step_size 0.01255 --out runs/audit-hardened",
        "holdfast audit --model runs/audit-hardened --out runs/audit-hardened-audit",
    ]


def test_a_network_without_weights_has_no_command() -> None:
    words = [word for word in OWN if word not in ("--weights", "w.safetensors")]
    for known in (
        words,
        ["audit", "--model", "zoo:mnist-natural", "--data", "images"],
        [*OWN, "--normalize", "cifar10"],
    ):
        _, harden, again = next_steps(audited("not robust", words=known))
        assert (harden.command, again.command) == ("", "")
        assert "hf.recipes.erar_plus" in harden.text


@pytest.mark.parametrize(("images", "limit"), [(1000, 64), (50, 50)])
def test_more_images_up_to_all(images: int, limit: int) -> None:
    for summary in (audited("robust", words=RUN, images=images), audited("cannot say", "few images", words=RUN)):
        summary["audit"]["images"] = images
        (command,) = commands(summary)
        assert command == f"holdfast audit --model runs/natural --data images --limit {limit}"


def test_all_images_were_used() -> None:
    (step,) = next_steps(audited("robust", words=RUN, images=24))
    assert step.command == ""
    assert "all 24 were used" in step.text


def test_weak_and_failed_attacks_search_longer_once() -> None:
    summary, command = (
        audited("cannot say", "failed attacks", "weak attack", words=RUN),
        "holdfast audit --model runs/natural",
    )
    assert commands(summary) == [f"{command} --data images --limit 24 --steps 200 --out runs/audit-longer"]
    summary["audit"]["verdict"]["attack"] = "strongest"
    assert commands(summary) == [f"{command} --data images --limit 24 --passes 8000 --out runs/audit-longer"]


def test_labels_in_doubt() -> None:
    (step,) = next_steps(audited("cannot say", "near chance", words=RUN))
    assert "order of the classes" in step.text
    assert step.command.endswith("--labels predicted --out runs/audit-predicted")


def test_from_python() -> None:
    assert commands(audited("robust")) == ["hf.audit(model, data, limit=64)"]
    assert commands(audited("not robust"))[2] == "hf.audit(model, data)"
    assert "hf.recipes.erar_plus(model, eps=0.03137" in commands(audited("not robust"))[1]
    assert commands(audited("cannot say", "no attack", "near chance", "weak attack")) == [
        "hf.audit(model, data)",
        'hf.audit(model, data, labels="predicted")',
        "hf.audit(model, data, steps=200)",
    ]


def test_options_keep_their_place_and_names_are_quoted() -> None:
    options = options_of(["audit", "--data", "my images", "--ig_steps", "5", "--no-strong"])
    assert options == {"--data": ["my images"], "--ig-steps": ["5"], "--no-strong": []}
    assert command_line(options, data="other images", limit=3) == (
        "holdfast audit --data 'other images' --ig-steps 5 --no-strong --limit 3"
    )
