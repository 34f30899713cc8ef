"""Certificates of a run: sentences, and the curves of the certified and the attacked overlap over the radius."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DataError
from holdfast.report.document import Document
from holdfast.report.sections import HEIGHT, WIDTH
from holdfast.report.view import RunView

FILE = "certificates.json"


@dataclass(frozen=True, kw_only=True)
class OverlapCurves:
    """Median share of the top k pixels of the smoothed map that stay, by Euclidean radius: (radius, share) points."""

    label: str
    dataset: str
    k: int
    certified: tuple[tuple[float, float], ...]
    attacked: tuple[tuple[float, float], ...]


def describe(content: Mapping[str, Any]) -> list[str]:
    """The content of `certificates.json` in sentences; the first says what is certified."""
    data = Document(content, FILE)
    return [
        _what(data),
        *_overlap(data),
        *_pixels(data),
        _confidence(data),
        *_stability(data),
        *_gradient(data),
        *_refuted(data),
        *(f"note: {note}" for note in data.texts("notes")),
    ]


def overlap_curves(views: Sequence[RunView]) -> list[OverlapCurves]:
    """The curves of every run that has certificates."""
    found = []
    for view in views:
        if view.run.certificates is not None:
            data = Document(view.run.certificates, f"{view.run.name}/{FILE}")
            overlap, attack = data.part("overlap"), data.part("attack")
            found.append(
                OverlapCurves(
                    label=view.label,
                    dataset=view.dataset,
                    k=data.count("k"),
                    certified=_points(overlap),
                    attacked=_points(attack),
                )
            )
    return found


def page_certificates(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """One block of the page per run with certificates: its sentences, and the curves as SVG paths."""
    certified = [view for view in views if view.run.certificates is not None]
    return [
        {
            "label": curves.label,
            "dataset": curves.dataset,
            "k": curves.k,
            "sentences": describe(view.run.certificates or {}),
            "last": f"{(last := _last(curves)):.2g}",
            "certified": _path(curves.certified, last),
            "attacked": _path(curves.attacked, last),
        }
        for view, curves in zip(certified, overlap_curves(certified), strict=True)
    ]


def _what(data: Document) -> str:
    draws, sigma = f"{data.count('draws'):,}", f"{data.number('sigma') or 0:g}"
    return (
        f"The smoothed map is certified, not the plain one, for {data.count('n')} images. It is the share of {draws} "
        f"noisy copies (standard deviation {sigma}) that have the pixel among the top {data.count('k')} of their map "
        f"({data.text('map')})."
    )


def _overlap(data: Document) -> list[str]:
    curve, attack = dict(_points(data.part("overlap"))), dict(_points(data.part("attack")))
    said: list[str] = []
    for radius in [r for r in attack if r > 0] or [data.part("pixels").number("radius") or 0.0]:
        share = _value_at(curve, radius)
        against = f"; under attack it keeps {attack[radius]:.0%}" if radius in attack else ""
        unit = "" if said else " (Euclidean, pixels in [0, 1])"
        said.append(
            f"Within radius {radius:.3g}{unit} the median image keeps at least {share:.0%} of its top "
            f"{data.count('k')} pixels{against}."
        )
    if 0.0 in attack:
        said.append(f"Fresh noise alone, without a perturbation, leaves {attack[0.0]:.0%}.")
    return said


def _pixels(data: Document) -> list[str]:
    pixels = data.part("pixels")
    share, attacked = pixels.number("median"), pixels.number("attacked_median")
    if share is None:
        return []
    against = f"; under attack {attacked:.0%} keep their side" if attacked is not None else ""
    where = f"Within radius {pixels.number('radius') or 0:.3g}, {share:.0%} of the pixels of the median image"
    sides = f"{pixels.number('top_median') or 0:g} stay among the top {data.count('k')}, the others stay outside"
    return [f"{where} are certified: {sides}{against}."]


def _confidence(data: Document) -> str:
    return f"Each of these certificates is wrong for an image with probability at most {data.number('alpha') or 0:g}."


def _stability(data: Document) -> list[str]:
    part = data.part("stability")
    rate = part.number("median")
    if rate is None:
        return []
    return [
        f"Shown only the {part.count('shown')} most important of {part.count('patches')} patches, the network keeps "
        f"its prediction in {rate:.0%} (± {part.number('error') or 0:.0%}) of the cases in which up to "
        f"{part.count('radius')} random patches are added (median image, {part.count('samples')} samples)."
    ]


def _gradient(data: Document) -> list[str]:
    part = data.part("gradient")
    share, attacked = part.number("median"), part.number("attacked_median")
    if share is None:
        return []
    against = f"; under attack it keeps {attacked:.0%}" if attacked is not None else ""
    return [
        f"Plain gradient, for changes of at most {part.number('eps') or 0:.3g} per pixel: the median image keeps at "
        f"least {share:.0%} of its top {data.count('k')} pixels, by interval arithmetic{against}."
    ]


def _refuted(data: Document) -> list[str]:
    count = data.part("attack").count("contradictions")
    return [f"Warning: the attack refutes {count} certificates; please report this as a bug."] if count else []


def _points(data: Document) -> tuple[tuple[float, float], ...]:
    radii, shares = data.numbers("radii"), data.numbers("median")
    if len(radii) != len(shares):
        raise DataError(f"expected as many medians as radii in {data.where}; certify the run again.")
    return tuple(zip(radii, shares, strict=True))


def _value_at(curve: Mapping[float, float], radius: float) -> float:
    """The certified share at the smallest radius of the curve that is not below `radius`."""
    return next((share for at, share in sorted(curve.items()) if at >= radius), 0.0)


def _last(curves: OverlapCurves) -> float:
    return max([radius for radius, _ in (*curves.certified, *curves.attacked)], default=0.0) or 1.0


def _path(points: Sequence[tuple[float, float]], last: float) -> str:
    placed = [f"{radius / last * WIDTH:.0f} {(1 - share) * HEIGHT:.0f}" for radius, share in points]
    return "M" + "L".join(placed) if placed else ""
