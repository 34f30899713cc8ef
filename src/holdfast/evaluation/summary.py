"""The summary of an evaluation: medians of the rows, accuracies, and for each attack its budget and chance values."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.attacks.base import ExplanationAttack
from holdfast.attribution import MAPS
from holdfast.data.dataset import Dataset
from holdfast.evaluation.accuracy import Accuracy
from holdfast.metrics.registry import METRICS
from holdfast.runs.rows import ExampleRow
from holdfast.runs.summary import RunInfo, share_with_interval, summarise
from holdfast.types import Attribution


def evaluation_summary(
    rows: Sequence[ExampleRow], accuracy: Accuracy, under_apgd: dict[int, bool], info: RunInfo
) -> dict[str, Any]:
    """Summary of the rows; the accuracies come from the larger sets they were measured on, each with its own n."""
    summary = summarise(rows, info)
    measured = {
        "natural_accuracy": (accuracy.natural, len(accuracy.label)),
        "pgd_accuracy": (accuracy.under_attack, len(accuracy.correct_under_attack)),
    }
    if under_apgd:
        measured["apgd_accuracy"] = (sum(under_apgd.values()) / len(under_apgd), len(under_apgd))
    for name, (share, n) in measured.items():
        summary |= share_with_interval(name, share, n)
    return summary


def add_chance(summary: dict[str, Any], attacks: Mapping[str, ExplanationAttack], dataset: Dataset) -> None:
    """Add k, and the value of every metric for two random maps where it is known, to the summary of each attack."""
    _, height, width = dataset.image_shape
    for name in summary["attacks"].keys() & attacks.keys():
        found, k = summary["attacks"][name], attacks[name].eval_k
        values = {metric.name: metric.by_chance(height, width, k) for metric in METRICS.values()}
        found |= {"k": k, "chance": {metric: value for metric, value in values.items() if value is not None}}


def add_budgets(summary: dict[str, Any], attacks: Mapping[str, ExplanationAttack]) -> None:
    """Add the budget of each attack to its summary."""
    for name in summary["attacks"].keys() & attacks.keys():
        summary["attacks"][name]["budget"] = _budget(attacks[name])


def _budget(attack: ExplanationAttack) -> dict[str, Any]:
    """Norm and radius of the ball, k and the map, with the keys of `holdfast.runs.budget.Budget`."""
    ball = attack.ball
    norm, eps = (None, None) if ball is None else (type(ball).__name__, ball.eps)
    return {"norm": norm, "eps": eps, "k": attack.eval_k, "map": _map_name(attack.attribution)}


def _map_name(attribution: Attribution) -> str:
    """The registered name of a map, else the method of a map of captum, else the name of its class."""
    known = (name for name, kind in MAPS.items() if type(attribution) is kind)
    method = getattr(getattr(attribution, "method", None), "__name__", type(attribution).__name__)
    return next(known, str(method))
