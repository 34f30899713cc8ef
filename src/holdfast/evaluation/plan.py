"""Evaluate a network: accuracy, accuracy under PGD, and what every attack does to its maps, one row an example.

Rows are written as they come, so memory does not grow with the number of images and an interrupted evaluation goes
on where it stopped. Every random number is a hash of (seed, example id): the rows do not depend on the batch size.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks.diagnostics import diagnose
from holdfast.attacks.ensemble import Ensemble, EnsembleResult
from holdfast.attacks.explanation import SCORES, ExplanationAttack, ExplanationResult, Outcome
from holdfast.attacks.pgd import PGD
from holdfast.attribution.integrated import IntegratedGradients
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.loader import Loader
from holdfast.evaluation.accuracy import Accuracy, measure_accuracy, read_accuracy
from holdfast.evaluation.identity import claim, identity
from holdfast.losses.maps import map_of
from holdfast.models.modes import evaluating
from holdfast.results.examples import ExampleRow, Examples
from holdfast.results.files import write_json_atomic
from holdfast.results.panels import Panels, write_panels
from holdfast.results.provenance import collect_provenance
from holdfast.results.summary import Facts, share_with_interval, summarise
from holdfast.rng import make_keys
from holdfast.training.lock import owned
from holdfast.types import Model

Attack = ExplanationAttack | Ensemble
Report = Callable[[str, int, int], None]
"""Told after every batch: (what is being done, examples done, examples in all)."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One row for each attack and example, the summary of them, and pictures of a few."""

    rows: tuple[ExampleRow, ...]
    summary: dict[str, Any]
    panels: Panels | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure: the attacks by name, PGD on the prediction, and on how many images each."""

    attacks: Mapping[str, Attack]
    pgd: PGD | None = None
    limit: int | None = None
    """Images for the attacks on explanations, a stratified subset drawn from the seed; None is all."""
    pgd_limit: int | None = None
    panels: int = 6
    """Examples kept as pictures, besides the three worst."""
    diagnose: int = 0
    """Images on which the attack itself is checked for blindness; 0 leaves that out."""
    batch_size: int = 64
    seed: int = 0


def evaluate(
    model: Model,
    data: Dataset | Loader,
    plan: Plan,
    *,
    facts: Facts | None = None,
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    report: Report | None = None,
) -> Evaluation:
    """Carry out `plan` on `data`; with `out`, into a run directory from which an interrupted call goes on."""
    dataset = data.dataset if isinstance(data, Loader) else data
    folder = None if out is None else Path(out)
    with _claimed(folder):
        return _evaluate(model, dataset, plan, facts, folder, device, report)


def _claimed(folder: Path | None) -> AbstractContextManager[None]:
    return nullcontext() if folder is None else owned(folder)


def _evaluate(
    model: Model,
    dataset: Dataset,
    plan: Plan,
    facts: Facts | None,
    folder: Path | None,
    device: torch.device | str | None,
    report: Report | None,
) -> Evaluation:
    if folder is not None:
        settings = {"pgd": plan.pgd, **plan.attacks} if plan.pgd is not None else dict(plan.attacks)
        claim(folder, identity(model, dataset, settings, plan.seed))
    subset, note = _subset(dataset, plan.limit, plan.seed)
    accuracy = _accuracy(model, dataset, plan, folder, device, report)
    rows = _attack_all(model, subset, plan, accuracy, folder, device, report)
    facts = facts or Facts(dataset=dataset.name, method="", preset="", seed=plan.seed)
    origin = facts.provenance or collect_provenance(seeds=[plan.seed], device=str(device or "cpu"))
    facts = replace(facts, limit=note, provenance=origin)
    summary = _summary(rows, accuracy, facts)
    for name, warnings in _diagnoses(model, subset, plan, device).items():
        summary["attacks"][name]["warnings"] += warnings
    panels = _panels(model, subset, plan, rows, device)
    if folder is not None:
        write_json_atomic(folder / "summary.json", summary)
        if panels is not None:
            write_panels(folder / "panels.npz", panels)
    return Evaluation(rows=tuple(rows), summary=summary, panels=panels)


def _subset(dataset: Dataset, limit: int | None, seed: int) -> tuple[Dataset, str]:
    if limit is None or limit >= len(dataset):
        return dataset, ""
    chosen = dataset.stratified(limit, seed=seed)
    return chosen, f"{limit} of {len(dataset)} images, a stratified subset drawn with seed {seed}"


def _accuracy(
    model: Model,
    dataset: Dataset,
    plan: Plan,
    folder: Path | None,
    device: torch.device | str | None,
    report: Report | None,
) -> Accuracy:
    path = None if folder is None else folder / "accuracy.csv"
    attacked, _ = _subset(dataset, plan.pgd_limit, plan.seed)
    found = read_accuracy(path)
    for done in measure_accuracy(
        found,
        model,
        dataset,
        attacked,
        plan.pgd,
        seed=plan.seed,
        batch_size=max(plan.batch_size, 256),
        device=device,
        path=path,
    ):
        if report:
            report("accuracy", done, len(dataset))
    under_pgd = set(attacked.ids.tolist()) if plan.pgd is not None else set()
    found.correct_under_attack = {i: right for i, right in found.correct_under_attack.items() if i in under_pgd}
    return found


def _attack_all(
    model: Model,
    subset: Dataset,
    plan: Plan,
    accuracy: Accuracy,
    folder: Path | None,
    device: torch.device | str | None,
    report: Report | None,
) -> list[ExampleRow]:
    table = None if folder is None else Examples(folder / "examples.csv")
    rows = list(table.read().rows) if table is not None and table.path.exists() else []
    done = {(row.attack, row.id) for row in rows}
    for name, attack in plan.attacks.items():
        for start in range(0, len(subset), plan.batch_size):
            part = subset.subset(range(start, min(start + plan.batch_size, len(subset))))
            if all((name, i) in done for i in part.ids.tolist()):
                continue
            # The whole batch again, even if some of its rows are there: so the rows are those of an unbroken run.
            found = _attack_batch(model, part, name, attack, plan.seed, accuracy, device)
            fresh = [row for row in found if (name, row.id) not in done]
            if table is not None:
                table.append(fresh)
            rows += fresh
            if report:
                report(name, start + len(part), len(subset))
    wanted = set(subset.ids.tolist())  # an earlier call may have looked at more
    return [row for row in rows if row.attack in plan.attacks and row.id in wanted]


def _attack_batch(
    model: Model,
    part: Dataset,
    name: str,
    attack: Attack,
    seed: int,
    accuracy: Accuracy,
    device: torch.device | str | None,
) -> list[ExampleRow]:
    x, y, keys = _tensors(part, seed, device)
    result = attack.run(model, x, y, keys=keys)
    gaps = _completeness(model, x, y, _attribution_of(attack))
    columns = {score: getattr(_worst_scores(result), score).tolist() for score in SCORES}
    return [
        ExampleRow(
            attack=name,
            id=example,
            label=int(part.y[i]),
            prediction=accuracy.prediction[example],
            pgd_correct=accuracy.correct_under_attack.get(example),
            outcome=Outcome(int(result.outcome[i])).name.lower(),  # type: ignore[arg-type]  # same words, checked there
            winner=_winner(result, i),
            completeness_gap=gaps[i],
            **{score: values[i] for score, values in columns.items()},
        )
        for i, example in enumerate(part.ids.tolist())
    ]


def _worst_scores(result: ExplanationResult) -> Any:
    """Of an ensemble, each score from the member that hurt it most: the number that cannot be flattered."""
    return result.worst if isinstance(result, EnsembleResult) else result.scores


def _winner(result: ExplanationResult, i: int) -> str:
    if not isinstance(result, EnsembleResult) or int(result.winner[i]) < 0:
        return ""
    return result.names[int(result.winner[i])]


def _completeness(model: Model, x: Tensor, y: Tensor, attribution: Any) -> list[float | None]:
    if not isinstance(attribution, IntegratedGradients):
        return [None] * len(y)
    with evaluating(model):
        return list(attribution.completeness_gap(model, x, y).tolist())


def _summary(rows: Sequence[ExampleRow], accuracy: Accuracy, facts: Facts) -> dict[str, Any]:
    """The rows' summary; accuracies come from the larger sets they were measured on, each with its own n."""
    summary = summarise(rows, facts)
    measured = {
        "natural_accuracy": (accuracy.natural, len(accuracy.label)),
        "pgd_accuracy": (accuracy.under_attack, len(accuracy.correct_under_attack)),
    }
    for name, (share, n) in measured.items():
        summary |= share_with_interval(name, share, n)
    return summary


def _diagnoses(model: Model, subset: Dataset, plan: Plan, device: torch.device | str | None) -> dict[str, list[str]]:
    if not plan.diagnose:
        return {}
    few = subset.subset(range(min(plan.diagnose, len(subset))))
    x, y, keys = _tensors(few, plan.seed, device)
    return {
        name: list(diagnose(attack, model, x, y, keys=keys).warnings)
        for name, attack in plan.attacks.items()
        if isinstance(attack, ExplanationAttack) and name != "random"
    }


def _panels(
    model: Model, subset: Dataset, plan: Plan, rows: Sequence[ExampleRow], device: torch.device | str | None
) -> Panels | None:
    """Pictures of the first few images, the same for every network, and of the three whose maps moved most.

    The attack is run on them once more: its outcome depends on nothing but the example, so this gives what the rows
    describe, also when those rows were written before an interruption.
    """
    name, attack = next(iter(plan.attacks.items()))
    positions = {example: row for row, example in enumerate(subset.ids.tolist())}
    moved = sorted((r for r in rows if r.attack == name and r.outcome == "attacked"), key=lambda r: r.kendall or 0)
    chosen = list(dict.fromkeys([*subset.ids.tolist()[: plan.panels], *(r.id for r in moved[:3])]))
    if not plan.panels or not chosen or subset.image_shape[0] not in (1, 3):
        return None
    part = subset.subset([positions[i] for i in chosen])
    x, y, keys = _tensors(part, plan.seed, device)
    x_adv = attack(model, x, y, keys=keys)
    with evaluating(model), torch.no_grad():
        shown = [map_of(model, image, y, _attribution_of(attack)).half().cpu().numpy() for image in (x, x_adv)]
        predicted = model(x).argmax(1).cpu().numpy()
    return Panels(
        attack=name,
        ids=part.ids.numpy(),
        labels=part.y.numpy(),
        predictions=predicted,
        clean=part.x.numpy(),
        perturbed=x_adv.half().cpu().numpy(),
        clean_map=shown[0],
        perturbed_map=shown[1],
    )


def _attribution_of(attack: Attack) -> Any:
    return (
        attack.attribution if isinstance(attack, ExplanationAttack) else next(iter(attack.members.values())).attribution
    )


def _tensors(part: Dataset, seed: int, device: torch.device | str | None) -> tuple[Tensor, Tensor, Tensor]:
    return to_float(part.x, device), part.y.to(device), make_keys(seed, part.ids.to(device))
