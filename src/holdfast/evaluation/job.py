"""The measurements of one evaluation: accuracy, accuracy under PGD and APGD, and the rows of every attack.

Rows are written after every batch; only the perturbed images that may be pictured are kept, and those of
`EvaluationProtocol.keep_images_of`.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.attacks.base import CleanSide, ExplanationAttack
from holdfast.attacks.diagnostics import diagnose
from holdfast.attacks.explanation import PGDExplanationAttack
from holdfast.data.dataset import Dataset
from holdfast.evaluation.accuracy import Accuracy, accuracy_of, measure_accuracy, read_accuracy, rows_of
from holdfast.evaluation.apgd_accuracy import FILE as APGD_FILE
from holdfast.evaluation.apgd_accuracy import measure_apgd, read_apgd
from holdfast.evaluation.batch import attack_batch
from holdfast.evaluation.controls import shuffled_if_possible
from holdfast.evaluation.perturbed import FILE as PERTURBED_FILE
from holdfast.evaluation.perturbed import Found, Perturbed
from holdfast.evaluation.protocol import EvaluationProtocol, OnProgress, tensors
from holdfast.runs.names import CONTROL, is_control
from holdfast.runs.rows import ExampleRow, Examples, packed, unpacked
from holdfast.runs.verdict import decisive
from holdfast.training.distributed import Processes
from holdfast.types import MapCache, Model


@dataclass(frozen=True)
class Job:
    """One evaluation: its inputs, its output folder, its progress callback, and the processes that share it."""

    model: Model
    dataset: Dataset
    protocol: EvaluationProtocol
    folder: Path | None
    device: torch.device | str | None
    on_progress: OnProgress | None
    processes: Processes

    def accuracy(self, subset: Dataset) -> Accuracy:
        """Natural accuracy on all images, and accuracy under PGD on a subset of them."""
        path = None if self.folder is None else self.folder / "accuracy.csv"
        protocol = self.protocol
        attacked, _ = subset_of(self.dataset, protocol.pgd_limit, protocol.seed)
        found = accuracy_of(self.processes.shared(lambda: rows_of(read_accuracy(path))))
        sample = self._sample(attacked, subset)
        for done in measure_accuracy(
            found,
            self.model,
            sample,
            attacked,
            protocol.pgd,
            seed=protocol.seed,
            batch_size=max(protocol.batch_size, 256),
            device=self.device,
            path=path,
            processes=self.processes,
        ):
            self._tell("accuracy", done, len(sample))
        under_pgd = set(attacked.ids.tolist()) if protocol.pgd is not None else set()
        found.correct_under_attack = {i: right for i, right in found.correct_under_attack.items() if i in under_pgd}
        return found

    def under_apgd(self) -> dict[int, bool]:
        """Example id -> the network withstands every APGD attack; empty if there is none."""
        protocol = self.protocol
        if not protocol.apgd:
            return {}
        path = None if self.folder is None else self.folder / APGD_FILE
        attacked, _ = subset_of(self.dataset, protocol.apgd_limit, protocol.seed)
        found = dict(self.processes.shared(lambda: list(read_apgd(path).items())))
        for done in measure_apgd(
            found,
            self.model,
            attacked,
            protocol.apgd,
            seed=protocol.seed,
            batch_size=max(protocol.batch_size, 256),
            device=self.device,
            path=path,
            processes=self.processes,
        ):
            self._tell("APGD", min(done, len(attacked)), len(attacked))
        return {i: found[i] for i in attacked.ids.tolist()}

    def _sample(self, *attacked: Dataset) -> Dataset:
        """The images whose prediction is measured: all, or a stratified sample with the attacked images."""
        limit = self.protocol.accuracy_limit
        if limit is None or limit >= len(self.dataset):
            return self.dataset
        parts = (self.dataset.stratified(limit, seed=self.protocol.seed), *attacked)
        wanted = {i for part in parts for i in part.ids.tolist()}
        return self.dataset.subset([at for at, i in enumerate(self.dataset.ids.tolist()) if i in wanted])

    def attack(self, subset: Dataset, accuracy: Accuracy) -> tuple[list[ExampleRow], Perturbed]:
        """Run every attack on every batch; rows that already exist are not computed again.

        Returns the rows, and on rank 0 the perturbed images that may be pictured.
        """
        table = None if self.folder is None else Examples(self.folder / "examples.csv")
        rows = unpacked(self.processes.shared(lambda: packed(_written(table))))
        done = {(row.attack, row.id) for row in rows}
        path = self.folder / PERTURBED_FILE if self.folder is not None and self.processes.leads else None
        perturbed = Perturbed(subset, self.protocol.panels, rows, path, all_of=self.protocol.keep_images_of)
        for images, attacks in self._groups(subset):
            for fresh in self._rounds(images, tuple(attacks), accuracy, done, perturbed):
                if self.processes.leads:
                    perturbed.update(fresh)  # before the rows, so that every row in the table has its image
                    if table is not None:
                        table.append(fresh.rows)
                rows += fresh.rows
        if table is not None:  # a table of an older version has fewer columns than the rows made here
            rows = unpacked(self.processes.shared(lambda: packed(_written(table))))
        wanted = set(subset.ids.tolist())  # an earlier call may have attacked more images
        return [row for row in rows if row.id in wanted], perturbed

    def _groups(self, subset: Dataset) -> list[tuple[Dataset, dict[str, ExplanationAttack]]]:
        """The attacks that run on the same images, with these images."""
        groups: dict[int | None, dict[str, ExplanationAttack]] = {}
        for name, attack in self.protocol.attacks.items():
            groups.setdefault(self.protocol.limits.get(name), {})[name] = attack
        seed = self.protocol.seed
        return [(subset_of(subset, limit, seed)[0], attacks) for limit, attacks in groups.items()]

    def _rounds(
        self,
        images: Dataset,
        attacks: Sequence[str],
        accuracy: Accuracy,
        done: set[tuple[str, int]],
        perturbed: Perturbed,
    ) -> Iterator[Found]:
        """Deal the batches out to the processes; yield the rows that do not exist yet in the order of one process."""
        batches = batch_ranges(len(images), self.protocol.batch_size, self.protocol.first_batch)
        todo = [part for part in batches if any((a, images.ids[i].item()) not in done for a in attacks for i in part)]
        for mine, dealt in self.processes.rounds(todo):
            sides: MapCache[CleanSide] = MapCache()
            part = None if mine is None else images.subset(mine)
            held = [Found() for _ in dealt[1:]]
            for name in attacks:
                sent = self.processes.each(partial(self._fresh, part, name, accuracy, sides, done, perturbed))
                first, *others = map(Found.unpacked, sent)
                for place, found in zip(held, others, strict=False):
                    place.add(found)
                yield first
                self._tell(name, dealt[-1].stop, len(images))
            yield from held  # the rows of the other batches come after all rows of the first

    def _fresh(
        self,
        part: Dataset | None,
        name: str,
        accuracy: Accuracy,
        sides: MapCache[CleanSide],
        done: set[tuple[str, int]],
        perturbed: Perturbed,
    ) -> dict[str, Any]:
        """The rows of one attack on one batch that do not exist yet, and the images that may be pictured, packed.

        The whole batch is run even if some of its rows exist: the rows then equal those of an uninterrupted run.
        """
        if part is None or all((name, i) in done for i in part.ids.tolist()):
            return Found().packed()
        attack, seed = self.protocol.attacks[name], self.protocol.seed
        shuffled = self.shuffled if name in self.controlled else None
        rows, x_adv = attack_batch(self.model, part, name, attack, seed, accuracy, self.device, sides, shuffled)
        fresh = [row for row in rows if (name, row.id) not in done]
        return Found(fresh, perturbed.candidates(rows, x_adv)).packed()

    @property
    def controlled(self) -> tuple[str, ...]:
        """The attacks under which the map with shuffled weights is measured: the first, and the one that decides."""
        attacks = self.protocol.attacks
        first = next((name for name in attacks if not is_control(name)), CONTROL)
        return tuple(dict.fromkeys([first, decisive(attacks)]))

    @cached_property
    def shuffled(self) -> nn.Module | None:
        """The network with shuffled weights; None for a plain function, or if its map cannot be computed."""
        if not isinstance(self.model, nn.Module) or not len(self.dataset):
            return None
        x, y, _ = tensors(self.dataset.subset([0]), self.protocol.seed, self.device)
        return shuffled_if_possible(
            self.model, x, y, self.protocol.attacks[self.controlled[0]].attribution, seed=self.protocol.seed
        )

    def missing_controls(self) -> dict[str, list[str]]:
        """A warning if the control with shuffled weights could not be measured."""
        if not isinstance(self.model, nn.Module) or not len(self.dataset) or self.shuffled is not None:
            return {}
        note = "a copy of the network has no map, so there is no control with shuffled weights"
        return {name: [note] for name in self.controlled}

    def diagnoses(self, subset: Dataset) -> dict[str, list[str]]:
        """Warnings about gradient masking and weak attacks, by attack name."""
        few = subset.subset(range(min(self.protocol.diagnose, len(subset))))
        if not len(few):
            return {}
        x, y, keys = tensors(few, self.protocol.seed, self.device)
        return {
            name: list(diagnose(attack, self.model, x, y, keys=keys).warnings)
            for name, attack in self.protocol.attacks.items()
            if isinstance(attack, PGDExplanationAttack) and not is_control(name)
        }

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.on_progress:
            self.on_progress(what, done, total)


def batch_ranges(images: int, size: int, first: int | None = None) -> list[range]:
    """The images of every batch; the first batch has `first` images if that is fewer.

    >>> batch_ranges(10, 4), batch_ranges(10, 4, first=1)
    ([range(0, 4), range(4, 8), range(8, 10)], [range(0, 1), range(1, 5), range(5, 9), range(9, 10)])
    """
    starts = [0, *range(min(first or size, size), images, size)] if images else []
    return [range(start, end) for start, end in itertools.pairwise([*starts, images])]


def _written(table: Examples | None) -> tuple[ExampleRow, ...]:
    return table.read().rows if table is not None and table.path.exists() else ()


def subset_of(dataset: Dataset, limit: int | None, seed: int) -> tuple[Dataset, str]:
    """A stratified subset of `limit` images (None: all images), and the text that reports it; empty for all."""
    if limit is None or limit >= len(dataset):
        return dataset, ""
    chosen = dataset.stratified(limit, seed=seed)
    return chosen, f"{limit} of {len(dataset)} images, a stratified subset drawn with seed {seed}"
