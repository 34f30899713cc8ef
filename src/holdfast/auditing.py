"""Can I trust its maps? The question of someone who has a trained classifier and a folder of images.

result = holdfast.audit(model, holdfast.data.load("images/", split="all"))
print(result)
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.attacks import random_control
from holdfast.attribution import IntegratedGradients
from holdfast.checks import check_outputs
from holdfast.data import Dataset, to_float
from holdfast.errors import expected
from holdfast.evaluation import Evaluation, Plan, evaluate
from holdfast.evaluation.plan import Report
from holdfast.models import Classifier, evaluating
from holdfast.recipes import ifia, ifia_ensemble, pgd
from holdfast.results import Facts
from holdfast.types import Attribution

STURDY, FRAGILE = 0.8, 0.5
"""Median share of the top pixels that is kept: from here on the maps hold, below there they do not."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """What counts as a change nobody sees, and how hard to look.

    `eps` is the largest change of a pixel (pixels are in [0, 1]); `k` the number of top pixels that are watched, a
    tenth of the image when not given; `strong` runs the ensemble of eight attacks as well, each with half the steps.
    """

    eps: float = 8 / 255
    steps: int = 50
    k: int | None = None
    ig_steps: int = 50
    limit: int | None = 64
    strong: bool = True
    batch_size: int = 16
    seed: int = 0
    attribution: Attribution | None = None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The answer: the evaluation behind it, and one screen of words."""

    evaluation: Evaluation
    settings: AuditSettings
    k: int
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` holds."""
        return self.evaluation.summary

    def __str__(self) -> str:
        return "\n".join([*self._figures(), "", self.verdict, "", self.advice, *(f"note: {n}" for n in self.notes)])

    @property
    def decisive(self) -> str:
        """The strongest attack that was run."""
        return "ifia-ensemble" if "ifia-ensemble" in self.summary["attacks"] else "ifia-topk"

    @property
    def verdict(self) -> str:
        """One sentence: do the maps hold?"""
        kept = self._median(self.decisive, "top_k")
        if kept is None:
            return "No image could be attacked, so nothing can be said; see the outcomes."
        what = f"half of the images keep at most {kept:.0%} of their top {self.k} pixels"
        if kept >= STURDY:
            return f"The maps hold: {what}."
        word = "do not hold" if kept < FRAGILE else "hold in part"
        return f"The maps {word}: under a change nobody sees and with the prediction unchanged, {what}."

    @property
    def advice(self) -> str:
        """What to do next."""
        kept = self._median(self.decisive, "top_k")
        if kept is None:
            return "next: check labels and preprocessing: the network must predict the given labels."
        if kept >= STURDY:
            return "next: audit a larger sample (--limit None) and the images your users really bring."
        return (
            "next: look at the worst examples in the report; do not show these maps as evidence; harden the network by "
            "fine-tuning (holdfast train ... --init WEIGHTS) and audit again."
        )

    def _figures(self) -> list[str]:
        summary = self.summary
        budget = f"{self.settings.eps * 255:g}/255" if self.settings.eps < 0.2 else f"{self.settings.eps:g}"
        lines = [
            f"{summary['n']} images, predictions right on {_share(summary['natural_accuracy'])}"
            + (f", under PGD on {_share(summary['pgd_accuracy'])}" if summary["pgd_accuracy"] is not None else ""),
            f"change of at most {budget} a pixel, prediction kept:",
            f"  {'':18s}{'top ' + str(self.k) + ' kept':>16s}{'Kendall':>12s}{'could not attack':>20s}",
        ]
        names = {"random": "random noise", "ifia-topk": "top-k attack", "ifia-ensemble": "strongest of 8"}
        lines += [self._line(name, label) for name, label in names.items() if name in summary["attacks"]]
        return lines

    def _line(self, name: str, label: str) -> str:
        top_k, kendall = (self._median(name, metric) for metric in ("top_k", "kendall"))
        failed = self.summary["attacks"][name]["failed_share"]
        return f"  {label:18s}{_share(top_k):>16s}{_number(kendall):>12s}{_share(failed):>20s}"

    def _median(self, name: str, metric: str) -> float | None:
        value: float | None = self.summary["attacks"][name][metric]["median"]
        return value


def audit(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings | None = None,
    *,
    labels: str = "given",
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    report: Report | None = None,
) -> Audit:
    """How far a change that nobody sees moves the maps of `model` on `data`, compared with random noise.

    `labels="predicted"` explains what the network predicts instead of the given labels, for images without labels.
    """
    settings = settings or AuditSettings()
    network = model if isinstance(model, Classifier) else Classifier(model)
    if labels not in ("given", "predicted"):
        raise expected("labels = 'given' or 'predicted'", got=repr(labels))
    if labels == "predicted":
        data = _relabelled(network, data, device)
    pixels = data.image_shape[1] * data.image_shape[2]
    k = max(1, pixels // 10) if settings.k is None else settings.k
    facts = Facts(dataset=data.name, method="audit", preset="", seed=settings.seed, class_names=data.class_names)
    done = evaluate(network, data, _plan(settings, k), facts=facts, out=out, device=device, report=report)
    return Audit(evaluation=done, settings=settings, k=k, notes=_notes(done, data, labels))


def _plan(settings: AuditSettings, k: int) -> Plan:
    ig = settings.attribution or IntegratedGradients(steps=settings.ig_steps)
    main = ifia(
        eps=settings.eps,
        step_size=2.5 * settings.eps / max(1, settings.steps),
        steps=settings.steps,
        k=k,
        attribution=ig,
    )
    attacks: dict[str, Any] = {"ifia-topk": main}
    if settings.strong:
        attacks["ifia-ensemble"] = ifia_ensemble(
            eps=settings.eps, k=k, steps=max(1, settings.steps // 2), attribution=ig
        )
    attacks["random"] = random_control(main)
    return Plan(
        attacks=attacks,
        pgd=pgd(eps=settings.eps, steps=20),
        limit=settings.limit,
        pgd_limit=settings.limit,
        diagnose=8,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )


def _relabelled(model: nn.Module, data: Dataset, device: torch.device | str | None) -> Dataset:
    with evaluating(model), torch.no_grad():
        found = [model(to_float(part, device)) for part in data.x.split(64)]
    check_outputs(logits := torch.cat(found))
    y = logits.argmax(1).cpu()
    names = data.class_names if int(y.max()) < len(data.class_names) else tuple(map(str, range(int(y.max()) + 1)))
    return replace(data, y=y, class_names=names)


def _notes(done: Evaluation, data: Dataset, labels: str) -> tuple[str, ...]:
    notes = []
    accuracy = done.summary["natural_accuracy"]
    if labels == "given" and accuracy is not None and accuracy < 0.5:
        order = ", ".join(data.class_names[:4])
        notes.append(
            f"only {accuracy:.0%} of the predictions equal the labels; classes were taken in the order {order}, ... "
            "Is this the order of the network's outputs, and is its normalisation inside (mean, std)?"
        )
    notes += done.summary["attacks"]["ifia-topk"]["warnings"]
    return tuple(notes)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
