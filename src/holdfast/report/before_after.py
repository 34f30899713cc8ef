"""A network before and after hardening, as the page and the terminal show it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.metrics.registry import METRICS
from holdfast.runs import Difference
from holdfast.runs.names import in_words
from holdfast.runs.verdict import MIN_ATTACKED

Pair = tuple[float | None, float | None]
"""A value before and after."""


@dataclass(frozen=True, kw_only=True)
class BeforeAfter:
    """Medians and accuracies before and after, paired gains, how training went, and what was written.

    `unchanged` says that the weights are the original ones, since no others were within the limit on the accuracy.
    """

    kept: Pair
    kendall: Pair
    attacked: tuple[int, int]
    """Images behind these medians, before and after; the gains are on those that both have."""
    gains: Mapping[str, Difference]
    natural: Pair
    natural_n: int
    under_pgd: Pair
    pgd_n: int
    attack: str
    unchanged: bool = False
    doubts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Why the audit before, and that after, may show maps that hold better than they do."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Phase -> how long it took; `all` is the whole."""
    story: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    command: str = ""

    @property
    def verdict(self) -> str:
        """One sentence: whether the maps hold better and what that cost, or why the audits cannot say."""
        found = self.gains.get("top_k")
        if self.unchanged:
            return "The network was not changed: no state of training was within the limit on the accuracy."
        if found is None or found.mean is None or None in self.kept:
            return "There is no comparison, since no image was attacked before and after."
        low, high = found.mean_ci95 or (0.0, 0.0)
        if reasons := self._reasons(found.n, worse=high < 0):
            return f"This comparison cannot say whether the maps hold better: {'; '.join(reasons)}."
        answer = "The maps hold better" if low > 0 else "The maps hold less well" if high < 0 else "No clear gain"
        kept = f"{_percent(self.kept[1])} of the top pixels instead of {_percent(self.kept[0])}"
        return f"{answer}: under {self.attack_name} the median image keeps {kept}{self._cost()}."

    @property
    def took(self) -> str:
        """One sentence on the time; empty if it was not recorded."""
        if not self.seconds:
            return ""
        parts = [f"{name} {_time(spent)}" for name, spent in self.seconds.items() if name != "all"]
        return f"It took {_time(self.seconds['all'])}: {', '.join(parts)}."

    @property
    def attack_name(self) -> str:
        """The attack in words."""
        return in_words(self.attack)

    @property
    def gain_lines(self) -> tuple[str, ...]:
        """The paired gains with their intervals."""
        return tuple(_gain(name, found) for name, found in self.gains.items())

    @property
    def figures(self) -> tuple[tuple[str, str, str, str], ...]:
        """Title, value before, value after and number of images, for each headline figure."""
        before, after = self.attacked
        on = f"median of {before:,} images" + (f" before, {after:,} after" if before != after else "")
        return (
            (f"Top pixels kept under {self.attack_name}", *_shown(self.kept), on),
            (f"Kendall under {self.attack_name}", *_numbers(self.kendall), on),
            ("Accuracy", *_shown(self.natural), f"{self.natural_n:,} images"),
            ("Accuracy under PGD", *_shown(self.under_pgd), f"{self.pgd_n:,} images"),
        )

    def text(self) -> str:
        """A summary of one screen."""
        width = max(len(title) for title, *_ in self.figures)
        lines = [f"{'':{width}s}{'before':>10s}{'after':>10s}"]
        lines += [f"{title:{width}s}{before:>10s}{after:>10s}   {n}" for title, before, after, n in self.figures]
        gains = ["", "paired gains, mean with its 95 % interval:", *(f"  {line}" for line in self.gain_lines)]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, *(gains if self.gains else []), "", self.verdict, *self._said, *notes])

    def plain(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "verdict": self.verdict,
            "attack": self.attack,
            "top_k": list(self.kept),
            "kendall": list(self.kendall),
            "natural_accuracy": list(self.natural),
            "natural_accuracy_n": self.natural_n,
            "pgd_accuracy": list(self.under_pgd),
            "pgd_accuracy_n": self.pgd_n,
            "gains": {
                name: {
                    "median": found.median,
                    "ci95": found.ci95,
                    "mean": found.mean,
                    "mean_ci95": found.mean_ci95,
                    "n": found.n,
                }
                for name, found in self.gains.items()
            },
            "training": list(self.story),
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }

    @property
    def _said(self) -> list[str]:
        return [*self.story, *([self.took] if self.took else [])]

    def _reasons(self, pairs: int, *, worse: bool) -> list[str]:
        """Why there is no answer: few images, or doubts about the audit whose maps seem to hold better."""
        few = f"{pairs} images were" if pairs != 1 else "1 image was"
        needed = [f"only {few} attacked before and after, and at least {MIN_ATTACKED} are needed"]
        doubts = list(self.doubts[0] if worse else self.doubts[1])
        if doubts:
            doubts[0] = f"{'before' if worse else 'after'} hardening, {doubts[0]}"
        return [*(needed if pairs < MIN_ATTACKED else []), *doubts]

    def _cost(self) -> str:
        before, after = self.natural
        if before is None or after is None:
            return ""
        if f"{100 * (after - before):.1f}" in ("0.0", "-0.0"):
            return f", and the accuracy stays at {_percent(after)}"
        return f", and the accuracy changed by {100 * (after - before):+.1f} points to {_percent(after)}"


def _gain(name: str, found: Difference) -> str:
    metric = METRICS[name]
    if found.mean is None or found.mean_ci95 is None:
        return f"{metric.in_text}: no pairs"
    scale, unit, digits = (100, " points", 1) if metric.unit == "percent" else (1, "", 3)
    low, high = (f"{end * scale:+.{digits}f}" for end in found.mean_ci95)
    middle = f", difference of the medians {found.median * scale:+.{digits}f}" if found.median is not None else ""
    return f"{metric.in_text} {found.mean * scale:+.{digits}f}{unit} [{low}, {high}]{middle}, n = {found.n:,} pairs"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"


def _shown(pair: Pair) -> tuple[str, str]:
    return _percent(pair[0]), _percent(pair[1])


def _numbers(pair: Pair) -> tuple[str, str]:
    before, after = ("-" if value is None else f"{value:.3f}" for value in pair)
    return before, after


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
