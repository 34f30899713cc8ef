"""The verdict of an audit: whether the maps are robust, or why the audit cannot say.

It follows from `summary.json` alone, so that the printed audit and the page say the same. The measure is the median
share of the top pixels that an image keeps, under the strongest attack that was run or under random noise, whichever
is lower: noise of the same size is a perturbation, too. A failed attack counts as a map that kept all of them.

Damage that was found stays found: "not robust" does not depend on how good the attack is. The other two answers do, so
failed attacks, or an attack that is no stronger than noise, turn them into "cannot say". So does a network that is
little better than chance: its maps may hold because they hardly depend on the image.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from holdfast.runs.chance import chance_note
from holdfast.runs.names import DECISIVE, MAP_TITLES, STRONGEST, attack_of, control_of, in_words, is_control, map_of

Answer = Literal["robust", "partly robust", "not robust", "cannot say"]
Cause = Literal["few images", "near chance", "no attack", "failed attacks", "weak attack"]
Doubts = list[tuple[Cause, str]]

ROBUST, FRAGILE = 0.8, 0.5
"""Thresholds on the median share of top pixels kept: robust from `ROBUST` on, not robust below `FRAGILE`."""

MIN_ATTACKED = 20
"""With fewer attacked images, the 95 % interval of the median covers more than the middle half of the values."""

NEAR_CHANCE = 0.1
"""Accuracy is near chance if it is below chance + `NEAR_CHANCE` x (1 - chance), where chance is 1 / number of classes,
or if guessing could give it (`holdfast.runs.chance`). Then there is no answer at all."""

MIN_SKILL = 0.25
"""The same with this factor: below it, maps are not called robust or partly robust."""

MAX_FAILED = 0.25
"""With a larger share of failed attacks, the convention for them, and not the maps, decides the median."""


BEFORE_MAPS: tuple[Cause, ...] = ("near chance", "failed attacks")
"""Causes that also leave open which of several maps holds best; the verdict is then said before the comparison."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer, one sentence about it, why the audit cannot say (by cause), and the attack that decided."""

    answer: Answer
    sentence: str
    reasons: Mapping[Cause, str] = field(default_factory=dict)
    attack: str = ""


def add_verdict(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary of an audit with its verdict and notes in the part `audit`; any other summary as it is."""
    if "audit" not in summary:
        return summary
    return summary | {"audit": {**summary["audit"], "verdict": asdict(judge(summary)), "notes": notes_of(summary)}}


def judge(summary: Mapping[str, Any]) -> Verdict:
    """The verdict of the content of `summary.json`.

    >>> stats = {"median": 0.4, "ci95": (0.3, 0.5), "n": 64}
    >>> attack = {"top_k": stats, "failed_share": 0.0, "outcomes": {"attacked": 64}}
    >>> judge({"attacks": {"strongest": attack}, "natural_accuracy": 0.9, "class_names": ["cat", "dog"]}).answer
    'not robust'
    """
    attacks: Mapping[str, Any] = summary["attacks"]
    name = summary.get("maps", {}).get("attack") or decisive(attacks)  # of several maps, the one that holds best
    found = attacks.get(name, {})
    under_attack, under_noise = (_kept(attacks.get(which, {})) for which in (name, control_of(name, attacks)))
    kept = min((share for share in (under_attack, under_noise) if share is not None), default=None)
    holds = kept is not None and kept >= FRAGILE
    doubts = [*_few(found), *_near_chance(summary, MIN_SKILL if holds else NEAR_CHANCE)]
    if holds:
        doubts += _about_attack(name, found)
    if doubts or kept is None:
        said = "; ".join(text for _, text in doubts)
        sentence = f"This audit cannot say whether the maps are robust: {said}."
        return Verdict(answer="cannot say", sentence=sentence, reasons=dict(doubts), attack=name)
    answer: Answer = "robust" if kept >= ROBUST else "partly robust" if kept >= FRAGILE else "not robust"
    by_noise = is_control(name) or (under_attack is not None and kept < under_attack)
    sentence = _sentence(answer, kept, summary, "random noise of this size" if by_noise else _attack_words(name))
    return Verdict(answer=answer, sentence=sentence, attack=name)


def doubts_of_gain(summary: Mapping[str, Any]) -> dict[Cause, str]:
    """What puts in doubt that the maps of this audit hold better than others: its accuracy and its attack.

    They count here even if the maps are not robust, since a failed attack counts as a map that kept all pixels.
    """
    name = decisive(summary["attacks"])
    return dict([*_near_chance(summary, MIN_SKILL), *_about_attack(name, summary["attacks"].get(name, {}))])


def decisive(attacks: Collection[str], explanation: str = "") -> str:
    """The attack behind the verdict: the strongest if it was run, else the first that is not the random control.

    `explanation` is the map as in the names of the attacks: empty for the first of an audit.

    >>> decisive(["random", "ifia-topk"]), decisive(["strongest", "random:gradcam", "strongest:gradcam"], "gradcam")
    ('ifia-topk', 'strongest:gradcam')
    """
    own = [name for name in attacks if map_of(name) == explanation]
    names = {attack_of(name): name for name in ([name for name in own if not is_control(name)] or own)}
    return next((names[attack] for attack in (*DECISIVE, *names) if attack in names), "")


def precedes_maps(reasons: Collection[str]) -> bool:
    """Whether a verdict with these reasons is said before the comparison of several maps.

    >>> precedes_maps({"near chance": "accuracy is 10 %"}), precedes_maps({})
    (True, False)
    """
    return any(cause in reasons for cause in BEFORE_MAPS)


def notes_of(summary: Mapping[str, Any]) -> list[str]:
    """What else the reader of an audit should know, the gravest first: accuracy, network and data, then the attacks."""
    audit, accuracy = summary["audit"], summary.get("natural_accuracy")
    given = audit.get("labels") == "given"
    notes = [note for note in [_no_better_than_guessing(summary)] if note and given]
    if given and accuracy is not None and accuracy < 0.5:
        order = ", ".join(str(name) for name in summary.get("class_names", ())[:4])
        notes.append(
            f"Only {percent(accuracy)} of the predictions equal the labels. The assumed order of classes is {order}, "
            "... Check that this is the order of the network's outputs and that its normalisation is set (mean, std)."
        )
    if audit.get("labels") == "predicted":
        notes.append("The labels are the network's own predictions, so this audit says nothing about its accuracy.")
    notes += audit.get("told", ())
    warned: dict[str, list[str]] = {}
    for name, attack in summary["attacks"].items():
        for text in attack.get("warnings", ()):
            warned.setdefault(text, []).append(name)
    everywhere = len(summary["attacks"]) if len(summary["attacks"]) > 2 else None
    said = {text: "all attacks" if len(names) == everywhere else ", ".join(names) for text, names in warned.items()}
    return notes + [f"{names}: {text}" for text, names in said.items()]


def percent(share: float) -> str:
    """A share as a whole percentage.

    >>> percent(0.666)
    '67 %'
    """
    return f"{100 * share:.0f} %"


def _kept(attack: Mapping[str, Any]) -> float | None:
    """The median share of the top pixels that an image keeps under an attack."""
    value: float | None = attack.get("top_k", {}).get("median")
    return value


def _sentence(answer: Answer, kept: float, summary: Mapping[str, Any], cause: str) -> str:
    k, best = summary.get("audit", {}).get("k"), summary.get("maps", {}).get("best", "")
    subject = f"The {MAP_TITLES.get(best, best)} maps" if best else "The maps"
    pixels = f"its {k} most important pixels" if k else "its most important pixels"
    says = f"under {cause}, the median image keeps {percent(kept)} of {pixels}"
    word = "robust to these attacks" if answer == "robust" else answer
    return f"{subject} are {word}: {says}."


def _attack_words(name: str) -> str:
    """The attack in the verdict; only the strongest one stands for all attacks that keep the prediction."""
    link = " that" if attack_of(name) == STRONGEST else ", which"
    return f"{in_words(name)}{link} keeps the prediction"


def _few(attack: Mapping[str, Any]) -> Doubts:
    n = attack.get("top_k", {}).get("n", 0)
    if n >= MIN_ATTACKED:
        return []
    if n == 0:
        return [("few images", "no image could be attacked")]
    number = f"{n} images were" if n > 1 else "1 image was"
    return [("few images", f"only {number} attacked, and at least {MIN_ATTACKED} are needed")]


def _near_chance(summary: Mapping[str, Any], skill: float) -> Doubts:
    accuracy, classes = summary.get("natural_accuracy"), len(summary.get("class_names", ()))
    if accuracy is None or classes < 2:
        return []
    near, low = (accuracy < (chance := 1 / classes) + part * (1 - chance) for part in (NEAR_CHANCE, skill))
    near = near or bool(_no_better_than_guessing(summary))
    if not near and not low:
        return []
    how = "near chance" if near else "little better than chance"
    return [("near chance", f"accuracy is {percent(accuracy)}, {how} for {classes} classes")]


def _no_better_than_guessing(summary: Mapping[str, Any]) -> str:
    """A note if the accuracy on so many images could be luck; an empty string if not."""
    accuracy, n = summary.get("natural_accuracy") or 0.0, summary.get("natural_accuracy_n", 0)
    return chance_note(round(accuracy * n), n, len(summary.get("class_names", ())))


def _about_attack(name: str, attack: Mapping[str, Any]) -> Doubts:
    return [*_no_attack(name), *_failed(attack), *_no_stronger_than_noise(attack)]


def _no_attack(name: str) -> Doubts:
    return [("no attack", "only random noise was tried")] if is_control(name) else []


def _failed(attack: Mapping[str, Any]) -> Doubts:
    share = attack.get("failed_share") or 0.0
    if share <= MAX_FAILED:
        return []
    outcomes = attack.get("outcomes", {})
    causes = {"label_lost": "lost the label", "unmoved": "left the map unmoved", "nan_map": "met an undefined map"}
    counted = ", ".join(f"{outcomes[key]} {text}" for key, text in causes.items() if outcomes.get(key))
    said = f"{percent(share)} of the attacks failed ({counted}), more than {percent(MAX_FAILED)}"
    return [("failed attacks", said)]


def _no_stronger_than_noise(attack: Mapping[str, Any]) -> Doubts:
    gain = attack.get("gain_over_noise") or {}
    mean, interval = gain.get("mean"), gain.get("mean_ci95")
    if mean is None or interval is None or interval[0] > 0:
        return []
    points = round(100 * mean, 1)
    if points < 0:
        return [("weak attack", f"the attack is weaker than noise, which removes {-points:.1f} points more")]
    more = f"it removes {points:.1f} points more, and the interval includes zero" if points else "both remove as much"
    return [("weak attack", f"the attack is not measurably stronger than noise ({more})")]
