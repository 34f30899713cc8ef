"""Which of several explanations of one network holds best, on the same images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.runs.bootstrap import Bootstrap
from holdfast.runs.conventions import metric_values
from holdfast.runs.difference import paired_difference
from holdfast.runs.names import MAP_TITLES, control_of, in_words
from holdfast.runs.rows import ExampleRow
from holdfast.runs.verdict import MIN_ATTACKED, decisive, percent

METRIC = "top_k"
"""Maps are ranked by the share of the top pixels that they keep on average, a failed attack counting as all."""

Rows = Mapping[str, Sequence[ExampleRow]]


def compare_maps(rows: Rows, maps: Sequence[str], *, bootstrap: Bootstrap | None = None) -> dict[str, Any]:
    """The part `maps` of a summary: the maps in order of the share they keep, and a sentence about the best.

    `rows` are the rows of every attack. `maps` are the names of the maps, the first being that of the plain names. The
    images are those on which every map was attacked; where a map is undefined (constant), the image is left out. Empty
    if fewer than two maps have rows.
    """
    attacks = {name: decisive(rows, name if place else "") for place, name in enumerate(maps)}
    attacks = {name: attack for name, attack in attacks.items() if attack}
    if len(attacks) < 2:
        return {}
    shared = _shared({attack: rows[attack] for attack in attacks.values()})
    n = len(next(iter(shared.values())))
    if not n:
        return {"n": 0, "sentence": _cannot_say(0)}
    kept = {name: float(metric_values(shared[attack], METRIC)[1].mean()) for name, attack in attacks.items()}
    order = sorted(attacks, key=lambda name: -kept[name])
    best = order[0]
    found = {name: _one(attacks[name], attacks[best], shared, rows, bootstrap) for name in order}
    undefined = {name: sum(row.outcome == "nan_map" for row in rows[attack]) for name, attack in attacks.items()}
    about: dict[str, Any] = {"n": n, "best": best, "attack": attacks[best], "found": found}
    about["undefined"] = {name: number for name, number in undefined.items() if number}
    return about | {"sentence": _sentence(about)}


def title(name: str) -> str:
    """The name of a map in a sentence.

    >>> title("gradcam"), title("DeepLift")
    ('Grad-CAM', 'DeepLift')
    """
    return MAP_TITLES.get(name, name)


def _shared(rows: Rows) -> dict[str, list[ExampleRow]]:
    """The rows of the images that have a value in every attack, and a map that can be attacked."""
    ids = set.intersection(*(set(metric_values(group, METRIC)[0].tolist()) for group in rows.values()))
    ids -= {row.id for group in rows.values() for row in group if row.outcome == "nan_map"}
    return {name: [row for row in group if row.id in ids] for name, group in rows.items()}


def _one(attack: str, best: str, shared: Rows, rows: Rows, bootstrap: Bootstrap | None) -> dict[str, Any]:
    """What one map keeps under its attack and under noise, and how far it is behind the best, with intervals."""
    ids = {row.id for row in shared[attack]}
    noise = [row for row in rows.get(control_of(attack, rows), ()) if row.id in ids]
    means = {"kept": (shared[attack], METRIC), "kendall": (shared[attack], "kendall"), "under_noise": (noise, METRIC)}
    found: dict[str, Any] = {key: _mean(group, metric) for key, (group, metric) in means.items()} | {"attack": attack}
    if noise:
        found["gain_over_noise"] = _difference(shared[attack], noise, bootstrap)
    if attack != best:
        found["behind_best"] = _difference(shared[attack], shared[best], bootstrap)
    return found


def _mean(rows: Sequence[ExampleRow], metric: str) -> float | None:
    values = metric_values(rows, metric)[1]
    return float(np.mean(values)) if len(values) else None


def _difference(a: Sequence[ExampleRow], b: Sequence[ExampleRow], bootstrap: Bootstrap | None) -> dict[str, Any]:
    """Mean of b - a over the same images, with its interval."""
    found = paired_difference(a, b, METRIC, bootstrap=bootstrap)
    return {"mean": found.mean, "mean_ci95": found.mean_ci95, "n": found.n}


def _cannot_say(n: int) -> str:
    number = "1 image was" if n == 1 else f"{n} images were" if n else "no image was"
    only = "only " if n else ""
    return (
        f"This audit cannot say which explanation holds best: {only}{number} attacked on all maps, and at least "
        f"{MIN_ATTACKED} are needed."
    )


def _sentence(about: Mapping[str, Any]) -> str:
    found: Mapping[str, Any] = about["found"]
    best, second = list(found)[:2]
    if about["n"] < MIN_ATTACKED:
        return _cannot_say(about["n"])
    behind = found[second]["behind_best"]
    points, interval = 100 * behind["mean"], behind["mean_ci95"]
    low, high = (100 * end for end in interval) if interval else (points, points)
    first = title(best)
    share = percent(found[best]["kept"])
    keeps = f"under {in_words(found[best]['attack'])}, its maps keep {share} of their most important pixels on average"
    same = f"on the same {about['n']} images"
    gap = f"{points:.1f} points [{low:.1f}, {high:.1f}]"
    number = f"Of {len(found)} explanations"
    if interval is None or low <= 0:
        keeps = keeps.replace("its maps", f"{first} maps")
        other = f"{title(second)} maps {percent(found[second]['kept'])}"
        said = f"{number}, none holds measurably best: {keeps} and {other}, a difference of {gap} {same}."
    else:
        said = f"{number}, {first} holds best: {keeps}, {gap} more than those of the next, {title(second)}, {same}."
    return said + _left_out(about["undefined"]) + _weak(first, found[best].get("gain_over_noise"))


def _left_out(undefined: Mapping[str, int]) -> str:
    """A sentence about the images that a map says nothing about."""
    parts = [f"{number} on which {title(name)} is constant" for name, number in undefined.items()]
    return f" Images left out: {', '.join(parts)}." if parts else ""


def _weak(name: str, gain: Mapping[str, Any] | None) -> str:
    """A sentence if the attack on the best map removes no more than noise, so that a better one may exist."""
    if not gain or gain["mean_ci95"] is None or gain["mean_ci95"][0] > 0:
        return ""
    return f" The attack on {name} is not measurably stronger than noise, so a longer search may change the order."
