"""Computes `summary.json` from the rows: each average with its n and interval, each exclusion with its reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.runs.bootstrap import Bootstrap, Values, wilson
from holdfast.runs.controls import by_control, control_columns
from holdfast.runs.conventions import CONVENTIONS, FAILED, Convention, metric_values
from holdfast.runs.difference import paired_difference
from holdfast.runs.map_comparison import compare_maps
from holdfast.runs.names import control_of, map_of
from holdfast.runs.rows import OUTCOMES, ExampleRow, metrics_of
from holdfast.runs.verdict import decisive

REASONS = {
    "misclassified": "wrong before the attack, so not attacked; in no average",
    "label_lost": "no step of the attack kept the predicted label; counts as a failed attack",
    "unmoved": "the label was kept but the map never moved; counts as a failed attack",
    "nan_map": "the map or its metric is undefined; counts as a failed attack",
}
"""Outcome -> why the example was not attacked successfully, and how it is counted."""

MANY_FAILURES, FEW_EXAMPLES = 0.1, 30

MAX_RANDOM_STEPS = 0.05
"""A larger share of steps without a gradient gives a warning: the loss is flat, and the attack is a random walk."""


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """Information about a run that is not in its rows. `audit` describes an audit: model, data, labels and settings."""

    dataset: str
    method: str
    preset: str
    seed: int
    example_passes: int | None = None
    train_seconds: float | None = None
    network: str = ""
    limit: str = ""
    class_names: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    audit: Mapping[str, Any] = field(default_factory=dict)
    maps: tuple[str, ...] = ()
    """The maps that are compared, the first being that of the attacks with plain names."""


def summarise(rows: Sequence[ExampleRow], info: RunInfo, *, bootstrap: Bootstrap | None = None) -> dict[str, Any]:
    """The content of `summary.json` for all attacks of one run; fractions in [0, 1]."""
    attacks: dict[str, list[ExampleRow]] = {}
    for row in rows:
        attacks.setdefault(row.attack, []).append(row)
    optional = {
        "network": info.network,
        "limit": info.limit,
        "class_names": list(info.class_names),
        "audit": dict(info.audit),
    }
    # in an audit, noise is measured on the map of the attack that decides about this map
    judged = {decisive(attacks, name) for name in {map_of(name) for name in attacks}} if info.audit else set()
    noise = {name: attacks.get(control_of(name, attacks), ()) for name in judged}
    maps = compare_maps(attacks, info.maps, bootstrap=bootstrap)
    return {
        "dataset": info.dataset,
        "method": info.method,
        "preset": info.preset,
        "seed": info.seed,
        "n": len({row.id for row in rows}),
        **_accuracies(rows),
        "example_passes": info.example_passes,
        "train_seconds": info.train_seconds,
        "attacks": {
            name: summarise_attack(group, bootstrap=bootstrap)
            | (gain_over_noise(group, noise[name], bootstrap=bootstrap) if name in noise else {})
            for name, group in attacks.items()
        },
        **({"maps": maps} if maps else {}),
        **{key: value for key, value in optional.items() if value},
        "provenance": dict(info.provenance),
    }


def summarise_attack(rows: Sequence[ExampleRow], *, bootstrap: Bootstrap | None = None) -> dict[str, Any]:
    """Summarise one attack: metrics in the reference and all other conventions, outcomes, exclusions, warnings.

    `failed_share` is failed attacks / correctly classified examples. `random_step_share` is the share of the steps that
    had no gradient; it is omitted if the rows contain no step counts, and `controls` if they contain no control maps.
    """
    draw = bootstrap or Bootstrap()
    outcomes = Counter[str](row.outcome for row in rows)
    failed, tried = sum(outcomes[name] for name in FAILED), len(rows) - outcomes["misclassified"]
    metrics = {metric: describe(metric_values(rows, metric)[1], bootstrap=draw) for metric in metrics_of(rows)}
    random_share = random_step_share(rows)
    counts = {name: int(stats["n"]) for name, stats in metrics.items()}
    return {
        "rows": len(rows),
        **metrics,
        "failed_share": failed / tried if tried else None,
        "failed_share_ci95": wilson(failed, tried),
        **({} if random_share is None else {"random_step_share": random_share}),
        "outcomes": {name: outcomes[name] for name in OUTCOMES},
        "exclusions": _exclusions(rows, outcomes),
        "conventions": {name: _under(rows, name, draw) for name in CONVENTIONS},
        **_controls(rows, draw),
        "warnings": [*_warnings(failed, tried, counts), *random_step_warnings(random_share), *_notes(rows)],
        "wins": dict(Counter(row.winner for row in rows if row.winner and row.outcome == "attacked")),
    }


def gain_over_noise(
    rows: Sequence[ExampleRow], noise: Sequence[ExampleRow], *, bootstrap: Bootstrap | None = None
) -> dict[str, Any]:
    """How much more of the top pixels an attack removes than noise: mean paired difference; empty if not measured."""
    if not noise or rows is noise or "top_k" not in metrics_of(rows):  # the control itself has no gain
        return {}
    found = paired_difference(rows, noise, "top_k", bootstrap=bootstrap)
    return {"gain_over_noise": {"mean": found.mean, "mean_ci95": found.mean_ci95, "n": found.n}}


def describe(values: Values, *, bootstrap: Bootstrap | None = None) -> dict[str, Any]:
    """Median (with `ci95`), mean (with `mean_ci95`), quartiles and n; quartiles are interpolated linearly."""
    draw = bootstrap or Bootstrap()
    if len(values) == 0:
        return {"median": None, "ci95": None, "mean": None, "mean_ci95": None, "quartiles": None, "n": 0}
    low, median, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    return {
        "median": median,
        "ci95": draw.median(values),
        "mean": float(values.mean()),
        "mean_ci95": draw.mean(values),
        "quartiles": (low, high),
        "n": len(values),
    }


def share_with_interval(name: str, share: float | None, n: int) -> dict[str, Any]:
    """A share, its Wilson interval and its n, with the keys of `summary.json`."""
    return {name: share, f"{name}_ci95": wilson(round((share or 0) * n), n), f"{name}_n": n}


def random_step_share(rows: Sequence[ExampleRow]) -> float | None:
    """Share of the steps of the search that had no gradient, or None if no steps were counted."""
    counted = [row for row in rows if row.steps and row.random_steps is not None]
    steps = sum(row.steps or 0 for row in counted)
    return sum(row.random_steps or 0 for row in counted) / steps if steps else None


def random_step_warnings(share: float | None) -> list[str]:
    """A warning if many steps had no gradient."""
    if share is None or share <= MAX_RANDOM_STEPS:
        return []
    return [f"{share:.0%} of the steps had no gradient anywhere and were taken at random"]


def _under(rows: Sequence[ExampleRow], convention: Convention, draw: Bootstrap) -> dict[str, Any]:
    """Median with interval, mean and n of each metric under one convention."""
    found = {metric: metric_values(rows, metric, convention)[1] for metric in metrics_of(rows)}
    return {
        metric: {
            "median": float(np.median(values)) if len(values) else None,
            "ci95": draw.median(values),
            "mean": float(values.mean()) if len(values) else None,
            "n": len(values),
        }
        for metric, values in found.items()
    }


def _controls(rows: Sequence[ExampleRow], draw: Bootstrap) -> dict[str, Any]:
    """Statistics of the control maps. A failed attack leaves the image as it is, so its controls are unmoved, too."""
    values = {name: [v for row in rows if (v := row.controls.get(name)) is not None] for name in control_columns()}
    found = {
        control: {measure: describe(np.array(some), bootstrap=draw) for measure, some in measures.items()}
        for control, measures in by_control(values).items()
    }
    return {"controls": found} if found else {}


def _accuracies(rows: Sequence[ExampleRow]) -> dict[str, Any]:
    """Natural and PGD accuracy over the examples of the rows; an evaluation replaces them with those of larger sets."""
    by_id = {row.id: row for row in rows}.values()
    natural = [row.label == row.prediction for row in by_id]
    pgd = [row.pgd_correct for row in by_id if row.pgd_correct is not None]
    return {**_share("natural_accuracy", natural), **_share("pgd_accuracy", pgd)}


def _share(name: str, hits: Sequence[bool]) -> dict[str, Any]:
    return share_with_interval(name, sum(hits) / len(hits) if hits else None, len(hits))


def _exclusions(rows: Sequence[ExampleRow], outcomes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Number of examples that were not attacked and measured, by reason."""
    found = [{"reason": f"{name}: {why}", "n": outcomes[name]} for name, why in REASONS.items() if outcomes[name]]
    attacked = [row for row in rows if row.outcome == "attacked"]
    for metric in metrics_of(rows):
        missing = sum(row.score(metric) is None for row in attacked)
        if missing:
            reason = f"{metric} not available for an attacked example; not in its average"
            found.append({"reason": reason, "n": missing})
    return found


def _warnings(failed: int, tried: int, counts: Mapping[str, int]) -> list[str]:
    """Warnings about failed attacks, few examples and metrics with missing values."""
    found = []
    if tried and failed / tried > MANY_FAILURES:
        share = f"{failed} of {tried} attacks failed and count as unmoved"
        found.append(f"{share}: compare the three conventions before calling the maps robust.")
    if 0 < tried < FEW_EXAMPLES:
        those = "1 example was" if tried == 1 else f"{tried} examples were"
        found.append(f"only {those} attacked: the intervals are rough.")
    if not tried:
        found.append("no example was attacked: there is no result for the maps.")
    short = {name: n for name, n in counts.items() if 0 < n < tried}
    found += [f"{name} is based on {n} of {tried} examples." for name, n in short.items()]
    return found


def _notes(rows: Sequence[ExampleRow]) -> list[str]:
    """The notes of the attack, without duplicates."""
    return list(dict.fromkeys(row.notes for row in rows if row.notes))
