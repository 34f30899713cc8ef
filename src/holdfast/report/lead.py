"""The top of an audit's page: verdict, three figures, the worst images, next steps, notes and protocol."""

import re
from collections.abc import Sequence
from typing import Any

from holdfast.report.audit import AuditView
from holdfast.report.document import one_line
from holdfast.report.maps_table import maps_table
from holdfast.report.overlay import Pixels, overlay, png_uri
from holdfast.report.pictures import Picture
from holdfast.report.sections import page_table
from holdfast.report.view import RunView, Stat
from holdfast.runs.names import control_of, in_words
from holdfast.runs.verdict import percent

WORST = 3
"""Number of images at the top of the page."""


def page_lead(view: RunView, audit: AuditView, found: Sequence[Picture]) -> dict[str, Any]:
    """What the template shows above the tables for the audit of one run."""
    first, second = _sentences(view, audit)
    return {
        "title": audit.title,
        "answer": audit.answer,
        "sentence": _parts(first),
        "second": second,
        "maps": page_table(maps_table(view, view.maps)) if view.maps is not None and view.maps.found else None,
        "figures": _figures(view, audit),
        "worst": [_worst(view, picture) for picture in attacked(found)[:WORST]],
        "steps": [{"text": step.text, "command": command_lines(step.command)} for step in audit.steps],
        "notes": [*view.notes, *audit.notes],
        "protocol": audit.protocol,
    }


def _sentences(view: RunView, audit: AuditView) -> tuple[str, str]:
    """The headline, and what is said below it if several maps are compared."""
    if view.maps is None:
        return audit.sentence, ""
    return (audit.sentence, view.maps.sentence) if audit.before_maps else (view.maps.sentence, audit.sentence)


def _parts(sentence: str) -> list[str]:
    """What the sentence says, and its reason."""
    return [part for part in sentence.partition(": ") if part != ": "]


def attacked(found: Sequence[Picture]) -> list[Picture]:
    """The pictures whose map was moved, the most damaged first."""
    moved = [picture for picture in found if (row := picture.shots[0].row) is not None and row.outcome == "attacked"]
    return sorted(moved, key=lambda picture: [_score(picture, metric) for metric in ("top_k", "kendall")])


def command_lines(command: str) -> list[str]:
    """A command in parts that belong on one line: each option with its values.

    >>> command_lines("holdfast audit --model nets:build --limit 64")
    ['holdfast audit', '--model nets:build', '--limit 64']
    """
    return [part.strip() for part in re.split(r" (?=--)", command) if part]


def _figures(view: RunView, audit: AuditView) -> list[dict[str, str]]:
    noise, attack = (_kept(view, name) for name in (control_of(audit.attack, view.attacks), audit.attack))
    accuracy = _figure("Accuracy", view.natural, "image")
    if audit.labels == "predicted":
        accuracy = {"title": "Accuracy", "value": "n/a", "interval": "", "about": "not measured without labels"}
    return [
        _figure("Kept under random noise", noise, "image, median"),
        _figure(f"Kept under {in_words(audit.attack)}", attack, "image, median"),
        accuracy,
    ]


def _figure(title: str, stat: Stat, what: str) -> dict[str, str]:
    if stat.median is None:
        return {"title": title, "value": "n/a", "interval": "", "about": "not measured"}
    ends = [percent(end) for end in stat.ci95] if stat.ci95 else []
    interval = f"{ends[0].removesuffix(' %')} to {ends[1]}" if ends else ""
    noun, _, more = what.partition(",")
    about = f"{stat.n:,} {noun}{'s' if stat.n != 1 else ''}{',' if more else ''}{more}"
    return {"title": title, "value": percent(stat.median), "interval": interval, "about": about}


def _kept(view: RunView, attack: str) -> Stat:
    return view.attacks[attack].metrics.get("top_k", Stat()) if attack in view.attacks else Stat()


def _worst(view: RunView, picture: Picture) -> dict[str, Any]:
    shot = picture.shots[0]
    kept = _score(picture, "top_k")
    return {
        "name": one_line(picture.name) or f"image {picture.id}",
        "label": _class(view, picture.label),
        "kept": percent(kept),
        "kendall": f"{_score(picture, 'kendall'):.2f}",
        "sides": [
            {"caption": "Before", **_side(picture.clean, shot.clean_map)},
            {"caption": "After the attack", **_side(shot.perturbed, shot.perturbed_map)},
        ],
    }


def _side(image: Pixels, saliency: Pixels) -> dict[str, str]:
    return {
        "overlay": png_uri(overlay(image, saliency)),
        "map": png_uri(saliency, heat=True),
        "image": png_uri(image),
    }


def _class(view: RunView, label: int) -> str:
    name = view.class_names[label] if 0 <= label < len(view.class_names) else ""
    return name or str(label)


def _score(picture: Picture, metric: str) -> float:
    row = picture.shots[0].row
    value = row.score(metric) if row is not None else None
    return 1.0 if value is None else value
