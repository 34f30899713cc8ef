"""What to do after an audit: steps that follow from its verdict, each with the exact command where there is one."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.runs.budget import eps_text
from holdfast.runs.names import STRONGEST, attack_of
from holdfast.runs.verdict import MIN_ATTACKED

USUAL_IMAGES = 64
"""Number of images that the next audit should attack at least."""

LONGER = 4
"""Factor on the passes or steps when the attack was too weak."""

PRESET, STEP_SIZE, HOLDOUT = "digits/erar_plus", 0.4, "0.2"
"""Hardening: the preset with no settings of a particular dataset, its step size in units of eps, and the test part."""

DEFAULT_OUT = "runs/audit"

_IN_TRAIN = {
    "--holdout": "data.options.holdout",
    "--size": "data.options.size",
    "--crop": "data.options.crop",
    "--mean": "model.mean",
    "--std": "model.std",
}
"""Option of `holdfast audit` -> the same setting of `holdfast train`."""

_NOT_IN_TRAIN = (
    "--weights-key",
    "--builder",
    "--output",
    "--normalize",
    "--channels",
    "--classes",
    "--layout",
    "--quantize",
)
"""Options of `holdfast audit` that have no such setting: with them, no command for the fine-tuning is given."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: what to do and why, and the command for it, if there is one."""

    text: str
    command: str = ""


def next_steps(summary: Mapping[str, Any], words: Sequence[str] | None = None) -> tuple[Step, ...]:
    """The steps after an audit with this summary.

    `words` are the words of its command line, by default those in the summary. Without any, the audit was called from
    Python, and so are the next steps.
    """
    audit = summary["audit"]
    words = list(audit.get("command", ()) if words is None else words)
    verdict = audit["verdict"]
    if verdict["answer"] == "cannot say":
        causes = [cause for cause in verdict["reasons"] if cause in _STEPS]
        return tuple(dict.fromkeys(_STEPS[cause](summary, words) for cause in causes))
    if verdict["answer"] == "robust":
        return (_more_images(summary, words),)
    warning = Step(text="Do not use these maps as evidence for or against a decision of the network.")
    harden = _harden(summary, words)
    return (warning, harden, _audit_again(words, with_command=bool(harden.command)))


def options_of(words: Sequence[str]) -> dict[str, list[str]]:
    """The options of a command line with their values.

    >>> options_of(["audit", "--mean", "0.4", "0.5", "--limit=3"])
    {'--mean': ['0.4', '0.5'], '--limit': ['3']}
    """
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            name = name.replace("_", "-")
            found[name] = [value] if equals else []
        elif name:
            found[name].append(word)
    return found


def command_line(options: Mapping[str, Sequence[str]], **changes: object) -> str:
    """The audit's command line with other options; None removes an option.

    >>> command_line({"--model": ["m:f"], "--limit": ["3"]}, limit=64)
    'holdfast audit --model m:f --limit 64'
    """
    merged = dict(options)
    for key, value in changes.items():
        if value is None:
            merged.pop(f"--{key}", None)
        else:
            merged[f"--{key}"] = [str(value)]
    return shlex.join(["holdfast", "audit", *(word for name, values in merged.items() for word in (name, *values))])


def _more_images(summary: Mapping[str, Any], words: Sequence[str]) -> Step:
    audit, n = summary["audit"], summary["n"]
    there = audit.get("images", n)
    if n >= there:
        return Step(
            text=f"Audit other images, best those that the network meets in practice; all {n:,} were used here."
        )
    share = max(_attacked(summary) / n, 0.1) if n else 1.0
    limit = min(there, max(USUAL_IMAGES, 2 * n, math.ceil(MIN_ATTACKED / share)))
    text = f"Audit more images: {limit:,} of the {there:,} instead of {n:,}. The results so far are used again."
    return Step(text=text, command=_again(words, limit=limit))


def _check_labels(summary: Mapping[str, Any], words: Sequence[str]) -> Step:
    text = "Check the weights, the order of the classes and the normalisation"
    text += " (--mean, --std)" if words else " (hf.Classifier(net, mean, std))"
    return Step(text=f"{text}. To audit the classes that the network predicts instead:", command=_predicted(words))


def _predicted(words: Sequence[str]) -> str:
    if not words:
        return 'hf.audit(model, data, labels="predicted")'
    return command_line(options_of(words), labels="predicted", out=_out(words, "predicted"))


def _attack(summary: Mapping[str, Any], words: Sequence[str]) -> Step:
    text = "Attack the maps; random noise alone shows little."
    if not words:
        return Step(text=text, command="hf.audit(model, data)")
    return Step(text=text, command=command_line(options_of(words), attacks=None, out=_out(words, "attacked")))


def _search_longer(summary: Mapping[str, Any], words: Sequence[str]) -> Step:
    audit = summary["audit"]
    unit, usual = ("passes", 2000) if attack_of(audit["verdict"]["attack"]) == STRONGEST else ("steps", 50)
    depth = LONGER * int(audit.get("settings", {}).get(unit, usual))
    text = "Search longer, and read the warnings of the attacks:"
    if not words:
        return Step(text=text, command=f"hf.audit(model, data, {unit}={depth})")
    changes = {unit: depth, "out": _out(words, "longer")}
    return Step(text=text, command=command_line(options_of(words), **changes))


def _harden(summary: Mapping[str, Any], words: Sequence[str]) -> Step:
    audit = summary["audit"]
    eps = float(audit.get("settings", {}).get("eps", 8 / 255))
    text = "Fine-tune the network for robust maps, best on its training images:"
    if not words:
        call = f"hf.recipes.erar_plus(model, eps={eps:.4g}, attack_steps=5, step_size={STEP_SIZE * eps:.4g})"
        return Step(text=text, command=f"hf.fit({call}, train_loader, optimizer, steps=400)")
    given = options_of(words)
    start = _start(given, audit)
    if not start or any(name in given for name in _NOT_IN_TRAIN):
        return Step(text="Fine-tune the network for robust maps, with hf.recipes.erar_plus in your training loop.")
    sizes = ["--method.settings.eps", eps_text(eps), "--method.settings.step_size", f"{STEP_SIZE * eps:.4g}"]
    line = ["holdfast", "train", *start, *_data_options(given, audit), *sizes, "--out", _out(words, "hardened")]
    return Step(text=text, command=shlex.join(line))


def _start(given: Mapping[str, Sequence[str]], audit: Mapping[str, Any]) -> list[str]:
    """Preset, network and initial weights of the fine-tuning; empty if the command line does not tell."""
    model, weights = (" ".join(given.get(name, [])) for name in ("--model", "--weights"))
    network, dataset = str(audit.get("network", "")), str(audit.get("dataset", ""))
    if network and ":" not in network:
        own_data = [f"{dataset}/{PRESET.partition('/')[2]}"] if dataset else []
        return [PRESET, "--model", network, "--init", model] if "--data" in given else [*own_data, "--init", model]
    if ":" not in model or not weights or network:
        return []
    arguments = ["--model-args", *given["--model-args"]] if "--model-args" in given else []
    return [PRESET, "--model", model, *arguments, "--init", weights]


def _data_options(given: Mapping[str, Sequence[str]], audit: Mapping[str, Any]) -> list[str]:
    """Data and normalisation of the audit as overrides of the training's config."""
    if "--data" not in given:
        return []
    holdout = {"--holdout": [HOLDOUT]} if audit.get("split") == "all" else {}
    parts = ["--data", *given["--data"]]
    for name, key in _IN_TRAIN.items():
        values = {**holdout, **given}.get(name, [])
        if values and not (name in ("--mean", "--std") and audit.get("network")):
            parts += [f"--{key}", values[0] if len(values) == 1 else f"[{', '.join(values)}]"]
    return parts


def _audit_again(words: Sequence[str], *, with_command: bool) -> Step:
    text = f"Audit the fine-tuned network in the same way{':' if with_command else '.'}"
    if not with_command:
        return Step(text=text)
    if not words:
        return Step(text=text, command="hf.audit(model, data)")
    given, hardened = options_of(words), _out(words, "hardened")
    if ":" in " ".join(given.get("--model", [])):
        return Step(
            text=text, command=_again(words, weights=f"{hardened}/weights.safetensors", out=f"{hardened}-audit")
        )
    return Step(text=text, command=_again(words, model=hardened, out=f"{hardened}-audit"))


def _again(words: Sequence[str], **changes: object) -> str:
    if not words:
        said = ", ".join(f"{key}={value}" for key, value in changes.items())
        return f"hf.audit(model, data, {said})"
    return command_line(options_of(words), minutes=None, **changes)


def _out(words: Sequence[str], ending: str) -> str:
    return f"{(options_of(words).get('--out') or [DEFAULT_OUT])[0].rstrip('/')}-{ending}"


def _attacked(summary: Mapping[str, Any]) -> int:
    attack = summary["attacks"].get(summary["audit"]["verdict"]["attack"], {})
    n: int = attack.get("top_k", {}).get("n", 0)
    return n


_STEPS: dict[str, Callable[[Mapping[str, Any], Sequence[str]], Step]] = {
    "few images": _more_images,
    "near chance": _check_labels,
    "no attack": _attack,
    "failed attacks": _search_longer,
    "weak attack": _search_longer,
}
