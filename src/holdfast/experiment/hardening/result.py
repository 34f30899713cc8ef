"""Result of a hardening: both audits, the paired gains, what they cost in accuracy, and how training went."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.evaluation.audit_result import Audit
from holdfast.experiment.hardening.guarded import Check
from holdfast.experiment.hardening.plan import Plan
from holdfast.experiment.hardening.settings import HardenSettings
from holdfast.models import Classifier
from holdfast.report.before_after import BeforeAfter
from holdfast.report.compare import differences_of
from holdfast.runs import Difference
from holdfast.runs.verdict import decisive, doubts_of_gain


@dataclass(frozen=True, kw_only=True, repr=False)
class Hardened:
    """The hardened network and how it compares with the original one; `str()` is a summary of one screen.

    `gains` are paired differences, after minus before, under the strongest attack. `kept_step` is the step whose
    weights are used; 0 means the original ones, since no state of training was within the limit on the accuracy.
    """

    model: Classifier
    before: Audit
    after: Audit
    settings: HardenSettings
    plan: Plan
    checks: tuple[Check, ...]
    kept_step: int
    watched: tuple[float, float]
    """Accuracy on the watched images: of the original network, and of the one that is kept."""
    notes: tuple[str, ...] = ()
    """Notes on the training; `view` adds those of the audits."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Phase -> how long it took; `all` is the whole."""
    files: tuple[Path, ...] = ()
    continue_with: str = ""

    @property
    def attack(self) -> str:
        """The attack that decides: the strongest if it was run, else the first that is not the random control."""
        return decisive(self.after.summary["attacks"])

    @property
    def gains(self) -> dict[str, Difference]:
        """Metric -> paired difference under the attack that decides."""
        rows = [[row for row in one.evaluation.rows if row.attack == self.attack] for one in (self.before, self.after)]
        return differences_of(*rows)

    @property
    def backed_off(self) -> tuple[Check, ...]:
        """The looks at the accuracy after which the robustness terms were made weaker."""
        strengths = (1.0, *(check.strength for check in self.checks))
        return tuple(c for c, before in zip(self.checks, strengths, strict=False) if c.strength < before)

    @property
    def view(self) -> BeforeAfter:
        """What the page shows above the tables."""
        shares = [tuple(audit.summary[name] for audit in (self.before, self.after)) for name in _ACCURACIES]
        return BeforeAfter(
            kept=_pair(self, "top_k"),
            kendall=_pair(self, "kendall"),
            attacked=(_attacked(self.before, self.attack), _attacked(self.after, self.attack)),
            gains=self.gains,
            natural=shares[0],
            natural_n=self.after.summary["natural_accuracy_n"],
            under_pgd=shares[1],
            pgd_n=self.after.summary["pgd_accuracy_n"],
            attack=self.attack,
            unchanged=self.kept_step == 0,
            story=self._story(),
            doubts=(_doubts(self.before), _doubts(self.after)),
            seconds=self.seconds,
            notes=(*self.notes, *audit_notes(self.before.notes, self.after.notes)),
            files=tuple(path.name for path in self.files),
            command=self.continue_with,
        )

    def __str__(self) -> str:
        return self.view.text()

    def __repr__(self) -> str:
        found = self.gains.get("top_k")
        gain = "no pairs" if found is None or found.mean is None else f"top-k {100 * found.mean:+.1f} points"
        return f"Hardened({self.settings.method}, {self.plan.steps} steps: {gain})"

    def plain(self) -> dict[str, Any]:
        """The result as plain values, for `result.json`."""
        return {
            **self.view.plain(),
            "steps": self.plan.steps,
            "kept_step": self.kept_step,
            "watched_accuracy": list(self.watched),
            "checks": [check._asdict() for check in self.checks],
        }

    def _story(self) -> tuple[str, ...]:
        """How training went, one sentence each."""
        limit = f"{100 * self.settings.max_accuracy_drop:g} points"
        first, last = (f"{100 * share:.1f} %" for share in self.watched)
        trained_map = self.plan.method.get("map")  # None for a method without such a setting
        how = self.settings.method + (f" on the map {trained_map}" if trained_map else "")
        said = [
            f"{how}, {self.plan.steps:,} steps of "
            f"{self.settings.batch_size} images; the accuracy was measured {_times(len(self.checks))} on "
            "held-out images, which are not the audited ones."
        ]
        if self.backed_off:
            steps = ", ".join(f"{check.step:,}" for check in self.backed_off)
            said.append(
                f"The accuracy fell too far below the original one; robustness terms were halved after step {steps}."
            )
        if not self.kept_step:
            said.append(
                f"No state of training was within {limit} of the original accuracy, so the weights are the original "
                "ones; allow a larger drop, a smaller perturbation or more time."
            )
        elif self.kept_step < self.plan.steps:
            said.append(
                f"The weights are those after step {self.kept_step:,} of {self.plan.steps:,}, the last within {limit} "
                f"of the original accuracy."
            )
        said.append(f"Accuracy on the watched images: {first} before, {last} after.")
        return tuple(said)


def audit_notes(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """The notes of both audits, each once; those of one of them say of which.

    >>> audit_notes(("softmax", "accuracy 30 %"), ("softmax", "accuracy 28 %"))
    ['softmax', 'before: accuracy 30 %', 'after: accuracy 28 %']
    """
    first = [text if text in after else f"before: {text}" for text in dict.fromkeys(before)]
    return first + [f"after: {text}" for text in dict.fromkeys(after) if text not in before]


def _doubts(audit: Audit) -> tuple[str, ...]:
    return tuple(doubts_of_gain(audit.summary).values())


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


_ACCURACIES = ("natural_accuracy", "pgd_accuracy")


def _attacked(audit: Audit, attack: str) -> int:
    return int(audit.summary["attacks"][attack]["top_k"]["n"])


def _pair(found: Hardened, metric: str) -> tuple[float | None, float | None]:
    before, after = (audit.summary["attacks"][found.attack][metric]["median"] for audit in (found.before, found.after))
    return before, after
