"""What to do after an audit: steps that follow from its verdict, each with the exact command where there is one."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.runs.names import MAP_TITLES, REFERENCE, STRONGEST, attack_of, in_words, is_control
from holdfast.runs.verdict import MIN_ATTACKED

USUAL_IMAGES = 64
"""Number of images that the next audit should attack at least."""

LONGER = 4
"""Factor on the passes or steps when the attack was too weak."""

DEFAULT_OUT = "runs/audit"

_IN_HARDEN = (
    "--model",
    "--builder",
    "--model-args",
    "--weights",
    "--weights-key",
    "--output",
    "--data",
    "--holdout",
    "--size",
    "--crop",
    "--channels",
    "--classes",
    "--layout",
    "--quantize",
    "--mean",
    "--std",
    "--normalize",
    "--eps",
    "--seed",
    "--device",
)
"""Options that `holdfast audit` and `holdfast harden` share."""


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
    return (warning, _harden(summary, words))


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
    again = "The results so far are used again" + ("." if words else " if the other options and `out` are the same.")
    text = f"Audit more images: {limit:,} of the {there:,} instead of {n:,}. {again}"
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
    attack = attack_of(audit["verdict"]["attack"])
    if is_control(attack):  # noise is no search
        return _attack(summary, words)
    unit, usual = ("passes", 2000) if attack == STRONGEST else ("steps", 50)
    depth = LONGER * int(audit.get("settings", {}).get(unit, usual))
    text = f"Search longer with {in_words(attack)}, and read the warnings of the attacks:"
    if not words:
        which = {STRONGEST: "", REFERENCE: "strong=False, "}.get(attack, f"attacks=({attack!r}, 'random'), ")
        return Step(text=text, command=f"hf.audit(model, data, {which}{unit}={depth})")
    changes: dict[str, Any] = {unit: depth, "out": _out(words, "longer")}
    if unit == "passes":  # they are multiplied already
        changes["thorough"] = None
    return Step(text=text, command=command_line(options_of(words), **changes))


def _harden(summary: Mapping[str, Any], words: Sequence[str]) -> Step:
    text = "Fine-tune the network for robust maps, best on its training images, and compare it before and after:"
    best = summary.get("maps", {}).get("best")  # of several maps, the one that the verdict is about
    if not words:
        settings = summary["audit"].get("settings", {})
        explained = best or settings.get("map", "ig")
        changes = f"eps={float(settings.get('eps', 8 / 255)):.4g}"
        changes += f", map={explained!r}" if explained in MAP_TITLES else ""  # an object of the caller's has no name
        return Step(text=text, command=f'hf.harden(model, train_data, {changes}, out="runs/hardened")')
    given = options_of(words)
    if given.get("--labels") == ["predicted"]:
        return Step(text="Fine-tune the network for robust maps with `holdfast harden`, which needs labelled images.")
    shared = {name: given[name] for name in _IN_HARDEN if name in given}
    if maps := given.get("--maps") or given.get("--map"):
        shared["--maps"] = [best] if best in maps else maps[:1]
    line = [word for name, values in shared.items() for word in (name, *values)]
    return Step(text=text, command=shlex.join(["holdfast", "harden", *line, "--out", _out(words, "hardened")]))


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
