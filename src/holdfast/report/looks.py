"""The look of each method in figures and on the page: colour, marker, fill, hatch and dash."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.report.view import RunView

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0568a", "#c98a00", "#3a9ad9", "#6b4fa0", "#6b7280")
"""The colours of the HTML page in its light theme; safe for red-green colour blindness."""

_SHAPES = (("o", 6.0), ("s", 5.5), ("^", 6.5), ("v", 6.5), ("D", 5.0), ("P", 6.5), ("*", 9.5), ("X", 6.5))
_FILLS: tuple[Literal["full", "none", "bottom"], ...] = ("full", "none", "bottom")
_HATCHES, _DASHES = ("", "////", "...."), ("solid", "dashed", "dotted")


@dataclass(frozen=True, kw_only=True)
class Look:
    """How figures draw one method. No two looks share marker and fill, so they differ in print without colour, too."""

    color: str
    marker: str
    size: float
    fill: Literal["full", "none", "bottom"]
    hatch: str
    dash: str


LOOKS = tuple(
    Look(color=color, marker=marker, size=size, fill=fill, hatch=hatch, dash=dash)
    for fill, hatch, dash in zip(_FILLS, _HATCHES, _DASHES, strict=True)
    for color, (marker, size) in zip(PALETTE, _SHAPES, strict=True)
)
"""Three rounds of eight colours: filled, hollow, half-filled. The page has a CSS class for each, `.c0` to `.c23`."""

_KNOWN = (
    *("madry", "trades", "ig-norm", "ig-sum-norm", "igr", "erar", "erar-plus", "natural"),
    *("madry-continued", "art", "lga", "r2et", "erar-scale-100", "curvature", "erar-plus-strong", "natural-softplus"),
    *("erar-cacr-only", "erar-wacr-only", "erar-1-0.7", "erar-0.7-1", "erar-no-nca", "adv-aat"),
    *("erar-plus-v1", "erar-no-base"),
)
_OTHER_NAMES = {"rar": "ig-sum-norm", "rar-ig-sum-norm": "ig-sum-norm", "singh": "art", "at": "madry"}


def method_looks(views: Sequence[RunView]) -> dict[str, int]:
    """Label -> place in `LOOKS`. A known method always has the same look; others take the looks that are left over.

    Runs of one method share its look. After 24 methods the looks repeat.
    """
    methods = list(dict.fromkeys(view.method for view in views))
    looks: dict[str, int] = {}
    for method in methods:
        name = method.lower().replace("_", "-")
        name = _OTHER_NAMES.get(name, name)
        if name in _KNOWN and _KNOWN.index(name) not in looks.values():
            looks[method] = _KNOWN.index(name)
    free = [number for number in range(len(LOOKS)) if number not in looks.values()] or list(range(len(LOOKS)))
    unknown = [method for method in methods if method not in looks]
    looks |= {method: free[at % len(free)] for at, method in enumerate(unknown)}
    return {view.label: looks[view.method] for view in views}
