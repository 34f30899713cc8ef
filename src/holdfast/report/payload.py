"""Data for the script of the page: all rows as packed columns, and pictures as PNG data addresses."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.metrics.registry import METRICS, Metric
from holdfast.report.document import one_line
from holdfast.report.overlay import png_uri
from holdfast.report.pictures import Picture, Shot
from holdfast.report.view import RunView, headline_attack
from holdfast.runs import OUTCOMES, ExampleRow, metrics_of

PICTURE_BYTES = 8_000_000
"""Size limit for pictures; further pictures are omitted, and the page says how many."""

MISSING = 65535
_UNESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def payload(views: Sequence[RunView], looks: Mapping[str, int], found: Sequence[Picture]) -> dict[str, Any]:
    """All data for the script, in JSON types."""
    shown, left_out = pack_pictures(found)
    return {
        "runs": [
            {"label": v.label, "dataset": v.group, "look": looks[v.label], "classes": list(v.class_names)}
            for v in views
        ],
        "outcomes": list(OUTCOMES),
        "metrics": [
            {"name": m.name, "title": m.title, "percent": m.unit == "percent", "packed": m.packed, "level": m.level}
            for m in _measured(views)
        ],
        "headline": headline_attack(views),
        "rows": pack_rows(views),
        "pictures": shown,
        "left_out": left_out,
    }


def to_script_json(value: Any) -> str:
    """JSON that cannot open or close an HTML tag, whatever its strings contain.

    >>> to_script_json(["</script>"])
    '["\\\\u003c/script\\\\u003e"]'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False).translate(_UNESCAPED)


def pack_rows(views: Sequence[RunView]) -> dict[str, Any]:
    """Columns of little-endian numbers in base64, about 40 bytes per row.

    Metrics within [-1, 1] use 16 bits: 0 to 65534 represent -1 to 1 (steps of 3e-5), 65535 means not available.
    """
    rows = [(number, row) for number, view in enumerate(views) for row in view.run.examples.rows]
    attacks = list(dict.fromkeys(row.attack for _, row in rows))
    winners = list(dict.fromkeys(row.winner for _, row in rows))
    places = {name: at for at, name in enumerate(attacks)}, {name: at for at, name in enumerate(winners)}
    every = [row for _, row in rows]
    columns = {
        "run": _pack([number for number, _ in rows], "u2"),
        "attack": _pack([places[0][row.attack] for row in every], "u2"),
        "winner": _pack([places[1][row.winner] for row in every], "u2"),
        "outcome": _pack([OUTCOMES.index(row.outcome) for row in every], "u1"),
        "id": _pack([row.id for row in every], "f8"),
        "label": _pack([row.label for row in every], "i4"),
        "prediction": _pack([row.prediction for row in every], "i4"),
        "completeness_gap": _pack(np.array([row.completeness_gap for row in every], np.float64), "f4"),
    }
    for metric in _measured(views):
        values = _floats(every, metric.name)
        columns[metric.name] = _pack(_steps(values), "u2") if metric.packed else _pack(values, "f4")
    return {"n": len(rows), "attacks": attacks, "winners": winners, "columns": columns}


def pack_pictures(found: Sequence[Picture]) -> tuple[list[dict[str, Any]], int]:
    """As many pictures as fit the size limit, at least one, and the number of omitted ones."""
    packed: list[dict[str, Any]] = []
    size = 0
    for picture in found:
        one = _pack_picture(picture)
        size += len(one["clean"]) + sum(
            len(s[k]) for s in one["shots"] for k in ("perturbed", "clean_map", "perturbed_map")
        )
        if packed and size > PICTURE_BYTES:
            break
        packed.append(one)
    return packed, len(found) - len(packed)


def _pack_picture(picture: Picture) -> dict[str, Any]:
    return {
        "dataset": picture.dataset,
        "id": picture.id,
        "label": picture.label,
        "name": one_line(picture.name),
        "scale": round(picture.scale, 3),
        "clean": png_uri(picture.clean),
        "shots": [_pack_shot(shot) for shot in picture.shots],
    }


def _pack_shot(shot: Shot) -> dict[str, Any]:
    row = shot.row
    return {
        "run": shot.view,
        "attack": one_line(shot.attack),
        "prediction": shot.prediction,
        "perturbed": png_uri(shot.perturbed),
        "clean_map": png_uri(shot.clean_map),
        "perturbed_map": png_uri(shot.perturbed_map),
        "outcome": row.outcome if row else None,
        **{name: row.score(name) if row else None for name in METRICS},
    }


def _measured(views: Sequence[RunView]) -> list[Metric]:
    """The headline metrics, and all other metrics measured by some run."""
    present = {name for view in views for name in metrics_of(view.run.examples.rows)}
    return [metric for metric in METRICS.values() if metric.level == "headline" or metric.name in present]


def _floats(rows: Sequence[ExampleRow], name: str) -> NDArray[np.float64]:
    return np.array([row.score(name) for row in rows], np.float64)  # None becomes NaN


def _steps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(values), MISSING, np.rint((np.nan_to_num(values) + 1) / 2 * (MISSING - 1)))


def _pack(values: Sequence[int] | NDArray[np.float64], kind: str) -> str:
    return base64.b64encode(np.asarray(values).astype(f"<{kind}").tobytes()).decode()
