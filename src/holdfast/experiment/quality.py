"""Quality of a run's maps on the images of its attacks: which measures they are is in `holdfast.evaluation.quality`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.attacks import ExplanationAttack
from holdfast.data import Dataset
from holdfast.evaluation import EvaluationProtocol
from holdfast.evaluation.job import subset_of
from holdfast.evaluation.protocol import OnProgress, tensors
from holdfast.evaluation.quality import map_quality
from holdfast.models import Classifier
from holdfast.runs import describe
from holdfast.runs.names import is_control
from holdfast.runs.verdict import decisive
from holdfast.training import Processes
from holdfast.types import Attribution


def quality_attack(protocol: EvaluationProtocol) -> str:
    """The attack of the attacked maps: the one that decides comparisons; empty if there is only noise."""
    name = decisive(protocol.attacks)
    return "" if is_control(name) else name


@dataclass(frozen=True, kw_only=True)
class QualityJob:
    """Measures the quality of a network's maps on the same images as the attacks of `protocol`.

    The maps are those of the attack that decides comparisons (`quality_attack`), the strongest if the protocol has it.
    Its result depends only on the example, so the images made here are the images of the rows.
    """

    model: Classifier
    data: Dataset
    protocol: EvaluationProtocol
    paper_map: Attribution
    """The map that is compared with the map of `natural`: that of the true logit, as in the paper."""
    natural: Classifier | None = None
    perturbed: Mapping[int, Tensor] = field(default_factory=dict)
    """Example id -> perturbed image of the attack, if the caller has it; the others are made once more."""
    device: torch.device | None = None
    processes: Processes = field(default_factory=Processes)
    """Several processes share the batches."""

    def run(self, on_progress: OnProgress | None = None) -> dict[str, Any]:
        """Medians with intervals of the quality measures."""
        part, _ = subset_of(self.data, self.protocol.limit, self.protocol.seed)
        found: dict[str, list[float]] = {}
        done = 0
        for mine, dealt in self.processes.rounds(self._batches(part)):
            for one in self.processes.each(partial(self._of_batch, part, mine)):
                for name, values in one.items():
                    found.setdefault(name, []).extend(values)
            done += sum(len(batch.rows) for batch in dealt)
            if on_progress is not None:
                on_progress("quality", done, len(part))
        return {name: describe(_finite(values)) for name, values in found.items()}

    @property
    def attack(self) -> ExplanationAttack | None:
        """The attack of the attacked maps; None if there is only noise."""
        return self.protocol.attacks.get(quality_attack(self.protocol))

    def _of_batch(self, part: Dataset, batch: "_Batch | None") -> dict[str, list[float]]:
        if batch is None:
            return {}
        chosen, attack = part.subset(batch.rows), self.attack
        x, y, keys = tensors(chosen, self.protocol.seed, self.device)
        images = [self.perturbed[i] for i in chosen.ids.tolist() if i in self.perturbed]
        one = map_quality(
            self.model,
            x,
            y,
            self.paper_map if attack is None else attack.attribution,
            keys=keys,
            attack=attack if batch.attacked else None,
            x_adv=torch.stack(images).to(x) if batch.attacked and len(images) == len(x) else None,
            ball=None if attack is None else attack.ball,
            natural=self.natural,
            natural_map=self.paper_map,
            seed=self.protocol.seed,
        )
        return {name: values.double().tolist() for name, values in one.measured().items()}

    def _batches(self, part: Dataset) -> list["_Batch"]:
        """Batches of the images that the attack runs on (without a limit of its own all), then of the others."""
        few, size = self.protocol.limits.get(quality_attack(self.protocol)), self.protocol.batch_size
        chosen = set(subset_of(part, few, self.protocol.seed)[0].ids.tolist())
        ids = part.ids.tolist()
        groups = {attacked: [at for at, i in enumerate(ids) if (i in chosen) == attacked] for attacked in (True, False)}
        return [
            _Batch(rows[start : start + size], attacked)
            for attacked, rows in groups.items()
            for start in range(0, len(rows), size)
        ]


@dataclass(frozen=True)
class _Batch:
    """Positions of images, and whether the attack runs on them."""

    rows: list[int]
    attacked: bool


def _finite(values: list[float]) -> Any:
    found = np.asarray(values, dtype=np.float64)
    return found[np.isfinite(found)]
