"""Result of an audit: its verdict, its next steps, and a text of one screen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.evaluation.protocol import Evaluation
from holdfast.runs.budget import eps_text
from holdfast.runs.controls import IMAGE
from holdfast.runs.map_comparison import title
from holdfast.runs.names import (
    CENTRED_CONTROL,
    CONTROL,
    REFERENCE,
    STRONGEST,
    TRUE_LOGIT,
    attack_of,
    is_control,
    map_of,
)
from holdfast.runs.next_steps import Step, next_steps
from holdfast.runs.verdict import percent, precedes_maps

if TYPE_CHECKING:
    from pandas import DataFrame

    from holdfast.evaluation.audit_settings import AuditSettings

TITLES = {
    CONTROL: "random noise",
    CENTRED_CONTROL: "noise, centred",
    REFERENCE: "reference attack",
    STRONGEST: "strongest attack",
    TRUE_LOGIT: "on the true logit",
}
"""Attack name -> its name in the printed audit; other attacks are printed under their own name."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit:
    """Result of an audit: the full evaluation, and a one-screen text summary (`str(audit)`)."""

    evaluation: Evaluation
    settings: "AuditSettings"
    k: int
    command: tuple[str, ...] = ()
    """The words of the command line, for the next commands; empty for an audit from Python."""

    @property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`; its part `audit` holds model, data, settings, verdict and notes."""
        return self.evaluation.summary

    @property
    def answer(self) -> str:
        """ "robust", "partly robust", "not robust" or "cannot say"."""
        return str(self.summary["audit"]["verdict"]["answer"])

    @property
    def verdict(self) -> str:
        """One sentence that says whether the maps are robust, or why the audit cannot say (`holdfast.runs.verdict`)."""
        return str(self.summary["audit"]["verdict"]["sentence"])

    @property
    def decisive(self) -> str:
        """The attack that decided the verdict."""
        return str(self.summary["audit"]["verdict"]["attack"])

    @property
    def comparison(self) -> str:
        """One sentence that says which of several maps holds best; empty if there is one map."""
        return str(self.summary.get("maps", {}).get("sentence", ""))

    @property
    def notes(self) -> tuple[str, ...]:
        """What else the reader should know, one sentence each."""
        return tuple(self.summary["audit"]["notes"])

    @property
    def next_steps(self) -> tuple[Step, ...]:
        """What to do next, with the commands for it."""
        return next_steps(self.summary, self.command)

    def to_dataframe(self) -> "DataFrame":
        """One row per attack and example as a pandas data frame, with one column per metric."""
        return self.evaluation.to_dataframe()

    def __repr__(self) -> str:
        about = self.summary["audit"]
        return f"Audit({about['model']} on {about['data']}: {self.answer}, {self.summary['n']} images)"

    def __str__(self) -> str:
        steps = [text for step in self.next_steps for text in (f"next: {step.text}", _indented(step.command)) if text]
        first, last = self._sentences()
        above = [first, ""] if first else []
        said = [*above, *self._figures(), "", last, "", *steps, *(f"note: {n}" for n in self.notes)]
        return "\n".join(said)

    def _sentences(self) -> tuple[str, str]:
        """What is said above the figures, which may be empty, and what is said below them."""
        if self.comparison and precedes_maps(self.summary["audit"]["verdict"]["reasons"]):
            return self.verdict, self.comparison
        return self.comparison, self.verdict

    def _figures(self) -> list[str]:
        summary, eps = self.summary, eps_text(self.settings.eps)
        attacked = summary["attacks"].get(summary["audit"]["verdict"]["attack"], {}).get("top_k", {}).get("n", 0)
        lines = [
            f"{attacked} {self._drawn()}; {self._accuracy()}",
            f"medians under a perturbation of at most {eps} per pixel that keeps the prediction:",
            f"  {'':18s}{'top ' + str(self.k) + ' kept':>16s}{'Kendall':>12s}{'attack failed':>20s}",
        ]
        for explanation in dict.fromkeys(map_of(name) for name in self.settings.attack_names):
            lines += self._of_map(explanation)
        return [*lines, *self._image_line()]

    def _drawn(self) -> str:
        """How many images there were to attack, and of how many they are a sample."""
        drawn, images = self.summary["n"], self.summary["audit"]["images"]
        return f"of {drawn} images attacked" + (f", drawn from {images:,}" if images > drawn else "")

    def _of_map(self, explanation: str) -> list[str]:
        """One line per attack on a map, with the name of the map above them if there are several."""
        known, maps = self.summary["attacks"], self.settings.map_names
        names = [name for name in self.settings.attack_names if map_of(name) == explanation and name in known]
        names.sort(key=lambda name: not is_control(name))  # the random control first
        heading = [f" {title(explanation or maps[0])}"] if len(maps) > 1 else []
        return heading + [self._line(name, TITLES.get(attack_of(name), name)) for name in names]

    def _image_line(self) -> list[str]:
        """The image itself as a map, under the decisive attack: how much of the change is that of the image."""
        judged = self.summary["audit"]["verdict"]["attack"]
        image = self.summary["attacks"].get(judged, {}).get("controls", {}).get(IMAGE)
        if image is None or len(self.settings.map_names) > 1:  # with several maps, the report has one per map
            return []
        top_k, kendall = (image[metric]["median"] for metric in ("top_k", "kendall"))
        return [f"  {'image as a map':18s}{_share(top_k):>16s}{_number(kendall):>12s}{'-':>20s}"]

    def _accuracy(self) -> str:
        summary = self.summary
        if summary["audit"]["labels"] == "predicted":
            return "accuracy is not measured, since the labels are the predictions"
        said = f"accuracy {_share(summary['natural_accuracy'])} on {summary['natural_accuracy_n']:,} images"
        under = [
            f"{_share(summary[f'{name}_accuracy'])} under {name.upper()} on {summary[f'{name}_accuracy_n']:,}"
            for name in ("pgd", "apgd")
            if summary.get(f"{name}_accuracy") is not None
        ]
        return ", ".join([said, *under])

    def _line(self, name: str, label: str) -> str:
        attack = self.summary["attacks"][name]
        top_k, kendall = (attack[metric]["median"] for metric in ("top_k", "kendall"))
        return f"  {label:18s}{_share(top_k):>16s}{_number(kendall):>12s}{_share(attack['failed_share']):>20s}"


def _indented(command: str) -> str:
    return f"  {command}" if command else ""


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
