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


def test_maps_that_are_not_robust_are_hardened() -> None:
    assert commands(audited("not robust", words=OWN)) == [
        "",
        "holdfast harden --model nets:build --weights w.safetensors --data images --out runs/mine-hardened",
    ]
    assert commands(audited("partly robust", words=RUN, network="digits-cnn", split="test"))[1:] == [
        "holdfast harden --model runs/natural --data images --out runs/audit-hardened",
    ]


def test_options_that_both_commands_have_are_passed_on() -> None:
    more = "--mean 0.4 0.5 0.6 --std 0.2 --size 64 --eps 4/255 --passes 900 --minutes 5 --maps gradcam ig --holdout 50"
    harden = commands(audited("not robust", words=[*OWN, *more.split(), "--model-args", "width=2", "deep=1"]))[1]
    assert harden == (
        "holdfast harden --model nets:build --model-args width=2 deep=1 --weights w.safetensors --data images "
        "--holdout 50 --size 64 --mean 0.4 0.5 0.6 --std 0.2 --eps 4/255 --maps gradcam --out runs/mine-hardened"
    )


def test_the_map_of_the_verdict_is_hardened() -> None:
    settings = {"eps": 8 / 255, "map": "ig", "maps": ["ig", "gradcam"]}
    several = audited("partly robust", settings=settings) | {"maps": {"best": "gradcam"}}
    assert "eps=0.03137, map='gradcam', out=" in commands(several)[1]
    several["audit"]["command"] = [*OWN, "--maps", "ig", "gradcam"]
    assert "--maps gradcam --out" in commands(several)[1]


def test_a_map_of_the_callers_own_is_not_named() -> None:
    for own in ({"map": "MyMap"}, {"map": "ig", "maps": ["ig", "MyMap"]}):
        summary = audited("not robust", settings={"eps": 0.1} | own) | {"maps": {"best": "MyMap"}}
        assert commands(summary)[1] == 'hf.harden(model, train_data, eps=0.1, out="runs/hardened")'


def test_images_without_labels_have_no_command() -> None:
    _, harden = next_steps(audited("not robust", words=[*OWN, "--labels", "predicted"]))
    assert harden.command == ""
    assert "needs labelled images" in harden.text


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


def test_multiplied_passes_are_not_multiplied_again() -> None:
    summary = audited("cannot say", "weak attack", words=[*RUN, "--thorough"], settings={"passes": 20000, "steps": 50})
    assert "--thorough --steps 200" in commands(summary)[0]
    summary["audit"]["verdict"]["attack"] = "strongest"
    assert commands(summary) == [
        "holdfast audit --model runs/natural --data images --limit 24 --passes 80000 --out runs/audit-longer"
    ]


def test_labels_in_doubt() -> None:
    (step,) = next_steps(audited("cannot say", "near chance", words=RUN))
    assert "order of the classes" in step.text
    assert step.command.endswith("--labels predicted --out runs/audit-predicted")


def test_from_python() -> None:
    assert commands(audited("robust")) == ["hf.audit(model, data, limit=64)"]
    assert commands(audited("not robust"))[1] == (
        "hf.harden(model, train_data, eps=0.03137, map='ig', out=\"runs/hardened\")"
    )
    assert commands(audited("cannot say", "no attack", "near chance", "weak attack")) == [
        "hf.audit(model, data)",
        'hf.audit(model, data, labels="predicted")',
        "hf.audit(model, data, strong=False, steps=200)",
    ]
    other = audited("cannot say", "weak attack")
    for attack, command in (
        ("strongest", "hf.audit(model, data, passes=8000)"),
        ("ifia-cosine", "hf.audit(model, data, attacks=('ifia-cosine', 'random'), steps=200)"),
        ("random", "hf.audit(model, data)"),
    ):
        other["audit"]["verdict"]["attack"] = attack
        assert commands(other) == [command]


def test_steps_name_the_attack_that_was_run() -> None:
    (step,) = next_steps(audited("cannot say", "weak attack", words=[*RUN, "--no-strong"]))
    assert step.text.startswith("Search longer with the reference attack (ifia-topk), and read")
    assert "--no-strong" in step.command


def test_options_keep_their_place_and_names_are_quoted() -> None:
    options = options_of(["audit", "--data", "my images", "--ig_steps", "5", "--no-strong"])
    assert options == {"--data": ["my images"], "--ig-steps": ["5"], "--no-strong": []}
    assert command_line(options, data="other images", limit=3) == (
        "holdfast audit --data 'other images' --ig-steps 5 --no-strong --limit 3"
    )
