"""Control maps in rows and summaries: their names and columns (no PyTorch).

A row holds, for each control map, the headline metrics between the clean and the perturbed image, and the agreement of
the control map with the network's map, Spearman's rho. `evaluation/controls.py` computes them.
"""

from collections.abc import Mapping, Sequence

from holdfast.metrics.registry import METRICS, shown

IMAGE, SHUFFLED = "image", "shuffled"
CONTROL_MAPS = {IMAGE: "image itself", SHUFFLED: "shuffled weights"}
"""Name of a control map -> its name in tables."""

AGREEMENT = "agreement"


def column(control: str, measure: str) -> str:
    """The column of one measure of one control map.

    >>> column(IMAGE, "kendall")
    'image_kendall'
    """
    return f"{control}_{measure}"


def control_columns() -> tuple[str, ...]:
    """The columns of all control maps, in order."""
    measures = [*(metric.name for metric in shown("headline")), AGREEMENT]
    return tuple(column(control, measure) for control in CONTROL_MAPS for measure in measures)


def control_range(name: str) -> tuple[float, float]:
    """The allowed values of a control column."""
    metric = METRICS.get(name.partition("_")[2])
    return metric.range if metric is not None else (-1.0, 1.0)


def by_control(values: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Sequence[float]]]:
    """Columns with their values -> control map -> measure -> values; columns without values are left out."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for name, some in values.items():
        control, _, measure = name.partition("_")
        if some:
            found.setdefault(control, {})[measure] = some
    return found
