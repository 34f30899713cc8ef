"""One attack on one batch: the rows of its examples and the perturbed images."""

import torch
from torch import Tensor

from holdfast.attacks.base import CleanSide, ExplanationAttack, Outcome, clean_side
from holdfast.data.dataset import Dataset
from holdfast.evaluation.accuracy import Accuracy
from holdfast.evaluation.controls import control_scores
from holdfast.evaluation.protocol import tensors
from holdfast.metrics.registry import shown
from holdfast.runs.rows import ExampleRow
from holdfast.types import MapCache, Model


def attack_batch(
    model: Model,
    part: Dataset,
    name: str,
    attack: ExplanationAttack,
    seed: int,
    accuracy: Accuracy,
    device: torch.device | str | None,
    sides: MapCache[CleanSide],
    shuffled: Model | None,
) -> tuple[list[ExampleRow], Tensor]:
    """Rows and perturbed images of one attack on one batch; the clean side is computed once per attribution."""
    x, y, keys = tensors(part, seed, device)
    clean = sides.find(attack.attribution) or clean_side(model, x, y, attack.attribution, with_gap=True)
    sides.store(attack.attribution, clean)
    result = attack.run(model, x, y, keys=keys, clean=clean)
    scores = {metric: values.tolist() for metric, values in result.reported_scores.items()}
    measured = control_scores(
        clean.maps,
        x,
        result.x_adv,
        y,
        k=attack.eval_k,
        images={metric.name: result.images_of(metric.name) for metric in shown("headline")},
        attribution=attack.attribution,
        shuffled=shuffled,
    )
    controls = {name: torch.where(clean.right, values, torch.nan).tolist() for name, values in measured.items()}
    columns = zip(
        part.ids.tolist(),
        part.y.tolist(),
        result.outcome.tolist(),
        result.winner_names,
        clean.gap.tolist(),
        result.steps.tolist(),
        result.random_steps.tolist(),
        strict=True,
    )
    rows = [
        ExampleRow(
            attack=name,
            id=example,
            label=label,
            prediction=accuracy.prediction[example],
            pgd_correct=accuracy.correct_under_attack.get(example),
            outcome=Outcome(outcome).name.lower(),  # type: ignore[arg-type]  # same names; ExampleRow checks them
            scores={metric: values[i] for metric, values in scores.items()},
            winner=winner,
            completeness_gap=gap,
            steps=steps,
            random_steps=random_steps,
            notes="; ".join(result.notes),
            controls={name: values[i] for name, values in controls.items()},
        )
        for i, (example, label, outcome, winner, gap, steps, random_steps) in enumerate(columns)
    ]
    return rows, result.x_adv
