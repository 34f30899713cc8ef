"""Audit of a trained classifier: how far a small perturbation can change its saliency maps.

result = holdfast.audit(model, holdfast.data.load("images/", split="all"))
print(result)
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.attribution import make_map
from holdfast.config import check_eps
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.from_torch import as_dataset
from holdfast.engine.checks import check_outputs
from holdfast.engine.modes import evaluating
from holdfast.engine.passes import count_passes
from holdfast.errors import expected
from holdfast.evaluation.cost import Clock, fit_images_and_steps
from holdfast.evaluation.evaluate import evaluate
from holdfast.evaluation.preflight import chance_note, check_before_attacks
from holdfast.evaluation.protocol import Evaluation, EvaluationProtocol, OnProgress
from holdfast.models import Classifier
from holdfast.recipes import AttackSettings, apgd_pair, make_attacks, pgd
from holdfast.runs.controls import IMAGE
from holdfast.runs.names import CONTROL, REFERENCE, STRONGEST, TRUE_LOGIT
from holdfast.runs.summary import RunInfo
from holdfast.storage.json_files import write_json_atomic
from holdfast.types import Attribution

STURDY, FRAGILE = 0.8, 0.5
"""Thresholds on the median share of top pixels kept: robust from `STURDY` on, not robust below `FRAGILE`."""

PROBE_IMAGES, PROBE_STEPS, PROBE_PASSES = 4, 2, 400
"""What `fit_to_minutes` times."""

SHARES = {STRONGEST: 0.56, TRUE_LOGIT: 0.3}
"""Parts of `passes` for the strongest attack on the two maps; the rest is for noise, accuracy and PGD."""

CONTROL_STEPS = 6
"""Random perturbations per image that the control tries."""

FEWEST_PASSES = 600
"""`fit_to_minutes` does not go below this number of passes per image."""

SHARE_FOR_ATTACKS = 0.75
"""Part of the time that `fit_to_minutes` plans for the attacks; the rest is for accuracy, checks and the report."""

TITLES = {
    CONTROL: "random noise",
    REFERENCE: "top-k attack",
    STRONGEST: "strongest attack",
    TRUE_LOGIT: "on the true logit",
}
"""Attack name -> its name in the printed audit; other attacks are printed under their own name."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Settings of an audit: the threat model, the explanation and the strength of the attacks.

    `eps` is the largest change per pixel (pixels are in [0, 1]). `k` is the number of top pixels that are compared; the
    default is a tenth of the pixels. Accuracy is measured on a sample of `accuracy_limit` images, and under PGD on
    `limit` images; `apgd` adds Auto-PGD on the cross-entropy and on the difference of logits ratio. `map` names the
    explanation (`holdfast.attribution.MAPS`); `attribution` replaces it by an attribution object of your own.

    The audit runs the strongest attack on the map of the centred logit, which decides, and on that of the true logit,
    and random noise as the control. `passes` is the budget in example-passes per image for all of them together. With
    `strong=False` it runs the top-k attack of the papers with `steps` steps instead. `attacks` lists the attacks to run
    (`holdfast.recipes.ATTACKS`). Maps are scored with `ig_steps` points; inside a search, with `search_ig_steps`.

    >>> AuditSettings(eps=4 / 255, limit=16).map
    'ig'
    """

    eps: float = 8 / 255
    passes: int = 2000
    steps: int = 50
    k: int | None = None
    ig_steps: int = 30
    search_ig_steps: int = 5
    limit: int | None = 64
    accuracy_limit: int | None = 1000
    apgd: bool = False
    strong: bool = True
    batch_size: int = 16
    seed: int = 0
    map: str = "ig"
    attribution: Attribution | None = None
    attacks: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_eps(self.eps)

    @property
    def attack_names(self) -> tuple[str, ...]:
        """Names of the attacks to run."""
        if self.attacks:
            return self.attacks
        if not self.strong:
            return (REFERENCE, CONTROL)
        # a map of the caller's own has its own score
        return (STRONGEST, TRUE_LOGIT, CONTROL) if self.attribution is None else (STRONGEST, CONTROL)

    def top_k(self, data: Dataset) -> int:
        """The number of top pixels that are compared on images like those of `data`."""
        _, height, width = data.image_shape
        return max(1, height * width // 10) if self.k is None else self.k


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Result of an audit: the full evaluation, and a one-screen text summary (`str(audit)`)."""

    evaluation: Evaluation
    settings: AuditSettings
    k: int
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        return self.evaluation.summary

    def __str__(self) -> str:
        return "\n".join([*self._figures(), "", self.verdict, "", self.advice, *(f"note: {n}" for n in self.notes)])

    @property
    def decisive(self) -> str:
        """The attack behind the verdict: the strongest if it was run, else the first that is not the random control."""
        names = [name for name in self.settings.attack_names if name != CONTROL] or [CONTROL]
        return STRONGEST if STRONGEST in names else names[0]

    @property
    def verdict(self) -> str:
        """One sentence that says whether the maps are robust."""
        kept = self._median(self.decisive, "top_k")
        if kept is None:
            return "No image could be attacked, so there is no verdict; see the outcomes in the report."
        what = f"the median image keeps {kept:.0%} of its top {self.k} pixels"
        if kept >= STURDY:
            return f"The maps are robust to these attacks: {what}."
        word = "not robust" if kept < FRAGILE else "partly robust"
        return f"The maps are {word}: under a small perturbation that keeps the prediction, {what}."

    @property
    def advice(self) -> str:
        """The recommended next step."""
        kept = self._median(self.decisive, "top_k")
        if kept is None:
            return "next: check the labels and the preprocessing; the network must predict the given labels."
        if kept >= STURDY:
            return "next: audit more images (--limit None), and images from the data you use in practice."
        return (
            "next: look at the worst examples in the report. Do not use these maps as evidence. Fine-tune the network "
            "for robust maps (holdfast train ... --init WEIGHTS) and audit it again."
        )

    def _figures(self) -> list[str]:
        summary = self.summary
        budget = f"{self.settings.eps * 255:g}/255" if self.settings.eps < 0.2 else f"{self.settings.eps:g}"
        lines = [
            f"{summary['n']} images attacked; accuracy {_share(summary['natural_accuracy'])} on "
            f"{summary['natural_accuracy_n']:,} images"
            + "".join(
                f", {_share(summary[f'{name}_accuracy'])} under {name.upper()} on {summary[f'{name}_accuracy_n']:,}"
                for name in ("pgd", "apgd")
                if summary.get(f"{name}_accuracy") is not None
            ),
            f"medians under a perturbation of at most {budget} per pixel that keeps the prediction:",
            f"  {'':18s}{'top ' + str(self.k) + ' kept':>16s}{'Kendall':>12s}{'attack failed':>20s}",
        ]
        names = sorted(self.settings.attack_names, key=lambda name: name != CONTROL)  # the random control first
        lines += [self._line(name, TITLES.get(name, name)) for name in names if name in summary["attacks"]]
        return [*lines, *self._image_line()]

    def _image_line(self) -> list[str]:
        """The image itself as a map, under the decisive attack: how much of the change is that of the image."""
        image = self.summary["attacks"].get(self.decisive, {}).get("controls", {}).get(IMAGE)
        if image is None:
            return []
        top_k, kendall = (image[metric]["median"] for metric in ("top_k", "kendall"))
        return [f"  {'image as a map':18s}{_share(top_k):>16s}{_number(kendall):>12s}{'-':>20s}"]

    def _line(self, name: str, label: str) -> str:
        top_k, kendall = (self._median(name, metric) for metric in ("top_k", "kendall"))
        failed = self.summary["attacks"][name]["failed_share"]
        return f"  {label:18s}{_share(top_k):>16s}{_number(kendall):>12s}{_share(failed):>20s}"

    def _median(self, name: str, metric: str) -> float | None:
        value: float | None = self.summary["attacks"][name][metric]["median"]
        return value


def audit(
    model: nn.Module,
    data: Dataset | Iterable[Any],
    settings: AuditSettings | None = None,
    *,
    labels: str = "given",
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    on_progress: OnProgress | None = None,
    notes: Iterable[str] = (),
) -> Audit:
    """Measure how far small perturbations change the maps of `model` on `data`, compared with random noise.

    `data` is a holdfast dataset or loader, or a PyTorch DataLoader of (x, y). `labels="predicted"` explains the
    predicted class instead of the given label; use it for images without labels. `out` is a folder for rows and
    summary; an interrupted audit resumes from it. `notes` on the network are kept with those on data and accuracy.

    >>> import holdfast as hf
    >>> net = hf.models.build("digits-cnn", seed=0)
    >>> settings = hf.AuditSettings(eps=0.1, steps=2, ig_steps=3, limit=8, strong=False)
    >>> result = hf.audit(net, hf.data.load("digits", split="test"), settings, labels="predicted")
    >>> result.summary["n"]
    8
    """
    settings, data = settings or AuditSettings(), as_dataset(data)
    network = model if isinstance(model, Classifier) else Classifier(model)
    if labels not in ("given", "predicted"):
        raise expected("labels = 'given' or 'predicted'", got=repr(labels))
    if labels == "predicted":
        data = _relabelled(network, data, device)
    k = settings.top_k(data)
    limit = len(data) if settings.limit is None else min(settings.limit, len(data))
    check_before_attacks(network, data.stratified(limit, settings.seed), _explained(settings), device)
    info = RunInfo(dataset=data.name, method="audit", preset="", seed=settings.seed, class_names=data.class_names)
    done = evaluate(network, data, _protocol(settings, k), info=info, out=out, device=device, on_progress=on_progress)
    told = _notes(done, data, labels, notes)
    summary = done.summary | {"notes": list(told)}
    if out is not None:
        write_json_atomic(Path(out) / "summary.json", summary)
    return Audit(evaluation=replace(done, summary=summary), settings=settings, k=k, notes=told)


def fit_to_minutes(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings,
    minutes: float,
    *,
    device: torch.device | str | None = None,
    clock: Clock = time.monotonic,
) -> AuditSettings:
    """The settings with as many images, and if need be fewer passes or steps, as fit into `minutes`.

    A short run of every attack on a few images is timed first.
    """
    if not minutes > 0:
        raise expected("minutes > 0", got=minutes)
    network = model if isinstance(model, Classifier) else Classifier(model)
    few = data.stratified(min(PROBE_IMAGES, len(data)), seed=settings.seed)
    strong = STRONGEST in settings.attack_names
    unit = "passes" if strong else "steps"
    most, least = getattr(settings, unit), FEWEST_PASSES if strong else 5
    tried = min(most, PROBE_PASSES if strong else PROBE_STEPS)
    probe = _protocol(_with(settings, unit, tried), settings.top_k(data))
    probe = replace(probe, diagnose=0, panels=0, pgd=None, apgd=())
    relabelled = _relabelled(network, few, device)
    evaluate(network, relabelled.subset([0]), probe, device=device)  # the first call sets things up
    with count_passes() as counter:
        started = clock()
        evaluate(network, relabelled, probe, device=device)
        spent = clock() - started
    each = spent / max(1, counter.passes) if strong else spent / len(few) / tried
    wanted = len(data) if settings.limit is None else min(settings.limit, len(data))
    limit, depth = fit_images_and_steps(each, most, wanted, 60 * minutes * SHARE_FOR_ATTACKS, fewest_steps=least)
    return _with(replace(settings, limit=limit), unit, depth)


def _with(settings: AuditSettings, unit: str, depth: int) -> AuditSettings:
    return replace(settings, passes=depth) if unit == "passes" else replace(settings, steps=depth)


def _protocol(settings: AuditSettings, k: int) -> EvaluationProtocol:
    explained = _explained(settings)
    search = settings.search_ig_steps if getattr(explained, "points", 1) > settings.search_ig_steps else None
    strong = {"ig_steps": settings.ig_steps, "judge_points": settings.search_ig_steps}

    def shared(name: str) -> AttackSettings:
        return AttackSettings(
            eps=settings.eps,
            steps=settings.steps,
            k=k,
            ig_steps=settings.ig_steps,
            map=settings.map,
            attribution=settings.attribution,
            search_ig_steps=search,
            strongest=strong | {"passes": round(_share_of(name, settings) * settings.passes)},
            ensemble={"steps": max(1, settings.steps // 2), "search_ig_steps": search},
            control_steps=CONTROL_STEPS if settings.strong else None,
        )

    attacks = {name: make_attacks(shared(name), [name])[name] for name in settings.attack_names}
    return EvaluationProtocol(
        attacks=attacks,
        pgd=pgd(eps=settings.eps, steps=20),
        apgd=apgd_pair(eps=settings.eps, steps=20) if settings.apgd else (),
        limit=settings.limit,
        pgd_limit=settings.limit,
        apgd_limit=settings.limit,
        accuracy_limit=settings.accuracy_limit,
        diagnose=8,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )


def _share_of(name: str, settings: AuditSettings) -> float:
    """The part of the passes that one attack gets; without the second map, the first gets both parts."""
    if name == STRONGEST and TRUE_LOGIT not in settings.attack_names:
        return sum(SHARES.values())
    return SHARES.get(name, 1.0)


def _explained(settings: AuditSettings) -> Attribution:
    return settings.attribution or make_map(settings.map, steps=settings.ig_steps)


def _relabelled(model: nn.Module, data: Dataset, device: torch.device | str | None) -> Dataset:
    with evaluating(model), torch.no_grad():
        found = [model(to_float(part, device)) for part in data.x.split(64)]
    check_outputs(logits := torch.cat(found))
    y = logits.argmax(1).cpu()
    names = data.class_names if int(y.max()) < len(data.class_names) else tuple(map(str, range(int(y.max()) + 1)))
    return replace(data, y=y, class_names=names)


def _notes(done: Evaluation, data: Dataset, labels: str, more: Iterable[str]) -> tuple[str, ...]:
    """Notes of the audit, the gravest first: accuracy, then network and data, then the attacks."""
    accuracy, n = done.summary["natural_accuracy"], done.summary["natural_accuracy_n"]
    chance = chance_note(round((accuracy or 0) * n), n, data.num_classes) if labels == "given" else ""
    notes = [chance] if chance else []
    if labels == "given" and accuracy is not None and accuracy < 0.5:
        order = ", ".join(data.class_names[:4])
        notes.append(
            f"only {accuracy:.0%} of the predictions equal the labels. The assumed order of classes is {order}, ... "
            "Check that this is the order of the network's outputs and that its normalisation is set (mean, std)."
        )
    notes += [*more, *data.notes]
    for attack in list(done.summary["attacks"].values())[:1]:
        notes += attack["warnings"]
    return tuple(notes)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
