"""Evaluate a network: accuracy, accuracy under PGD and APGD, and the change of its maps under every attack.

Each attack gives one row per example. Rows are written after every batch, so memory does not grow with the number of
images and an interrupted evaluation resumes where it stopped. Every random number is a hash of (seed, example id), so
the rows do not depend on the batch size.

Several processes (`torchrun`) share the batches. Each batch is the same as in one process, so its rows have the same
bits, and rank 0 writes them in the same order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attacks.base import CleanSide, ExplanationAttack, Outcome, clean_side
from holdfast.attacks.diagnostics import diagnose
from holdfast.attacks.explanation import PGDExplanationAttack
from holdfast.data.dataset import Dataset
from holdfast.data.from_torch import as_dataset
from holdfast.errors import expected
from holdfast.evaluation.accuracy import Accuracy, accuracy_of, measure_accuracy, read_accuracy, rows_of
from holdfast.evaluation.apgd_accuracy import FILE as APGD_FILE
from holdfast.evaluation.apgd_accuracy import measure_apgd, read_apgd
from holdfast.evaluation.controls import control_scores, shuffled_if_possible
from holdfast.evaluation.default_protocol import default_protocol
from holdfast.evaluation.identity import claim, identity
from holdfast.evaluation.perturbed import FILE as PERTURBED_FILE
from holdfast.evaluation.perturbed import Found, Perturbed
from holdfast.evaluation.pictures import make_panels, stored_panels
from holdfast.evaluation.protocol import Evaluation, EvaluationProtocol, OnProgress, tensors
from holdfast.metrics.registry import METRICS
from holdfast.runs.names import CONTROL, is_control
from holdfast.runs.panels import write_panels
from holdfast.runs.provenance import collect_provenance
from holdfast.runs.rows import ExampleRow, Examples, packed, unpacked
from holdfast.runs.summary import RunInfo, share_with_interval, summarise
from holdfast.runs.verdict import add_verdict
from holdfast.storage.json_files import write_json_atomic
from holdfast.storage.lock import owned
from holdfast.training.distributed import Processes, current, pick_device
from holdfast.types import MapCache, Model


def evaluate(
    model: Model,
    data: Dataset | Iterable[Any],
    protocol: EvaluationProtocol | None = None,
    *,
    info: RunInfo | None = None,
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Run `protocol` on `data`. If `out` is given, write to that run directory and resume an interrupted call.

    `data` is a holdfast dataset or loader, a pair (x, y) of tensors or arrays, or a `torch.utils.data.DataLoader` of
    (x, y) or (x, y, id). The default protocol has the usual attacks within 8/255 on 64 images. In a process group all
    processes return all rows; the checks for gradient masking and the pictures are left to rank 0.

    >>> import holdfast as hf
    >>> model = hf.Classifier(hf.models.build("digits-cnn", seed=0))
    >>> attacks = hf.recipes.make_attacks(hf.recipes.AttackSettings(eps=0.1, steps=2, k=12, ig_steps=3), ["ifia-topk"])
    >>> protocol = hf.EvaluationProtocol(attacks=attacks, limit=10, panels=0)
    >>> evaluate(model, hf.data.load("digits", split="test"), protocol).summary["n"]
    10
    """
    dataset, folder = as_dataset(data), None if out is None else Path(out)
    protocol = protocol or default_protocol(dataset)
    device = None if device is None else pick_device(str(device))
    processes = current()
    job = _Job(model, dataset, protocol, folder, device, on_progress, processes)
    with ExitStack() as stack:
        if folder is not None or processes.world_size > 1:
            on_prediction = {"pgd": protocol.pgd, "apgd": protocol.apgd}
            measured = {name: attack for name, attack in on_prediction.items() if attack}
            parts = identity(model, dataset, {**measured, **protocol.attacks}, protocol.seed)
            _check_same(processes, parts)
            processes.leading(lambda: _open(stack, folder, parts))
        subset, note = _subset(dataset, protocol.limit, protocol.seed)
        accuracy = job.accuracy(subset)
        under_apgd = job.under_apgd()
        rows, perturbed = job.attack(subset, accuracy)
        info = info or RunInfo(dataset=dataset.name, method="", preset="", seed=protocol.seed)
        origin = info.provenance or collect_provenance(seeds=[protocol.seed], device=str(device or "cpu"))
        summary = _summary(rows, accuracy, under_apgd, replace(info, limit=note, provenance=origin))
        _add_chance(summary, protocol.attacks, dataset)
        if not processes.leads:
            return Evaluation(rows=tuple(rows), summary=summary)
        for name, warnings in (*job.diagnoses(subset).items(), *job.missing_controls().items()):
            if name in summary["attacks"]:
                summary["attacks"][name]["warnings"] += warnings
        for name in summary["attacks"].keys() & protocol.attacks.keys():
            summary["attacks"][name]["budget"] = _budget(protocol.attacks[name])
        summary = add_verdict(summary)
        pictured = _pictured(protocol, summary)
        panels = make_panels(model, subset, pictured, rows, device, perturbed.images, stored_panels(folder))
        if folder is not None:
            write_json_atomic(folder / "summary.json", summary)
            if panels is not None:
                write_panels(folder / "panels.npz", panels)
            perturbed.delete_file()
    return Evaluation(rows=tuple(rows), summary=summary, panels=panels)


def _open(stack: ExitStack, folder: Path | None, parts: dict[str, Any]) -> None:
    """Lock the folder until the end of the evaluation, and check that its rows belong to this evaluation."""
    if folder is not None:
        stack.enter_context(owned(folder))
        claim(folder, parts)


def _check_same(processes: Processes, parts: dict[str, Any]) -> None:
    """Raise if another process evaluates something else, since its rows would end up in the same table."""
    every = [dict(other) for other in processes.gather(parts)]
    changed = sorted({name for other in every for name in parts if other.get(name) != every[0].get(name)})
    if changed:
        raise expected("the same evaluation in every process", got=f"another {', '.join(changed)} in some")


@dataclass(frozen=True)
class _Job:
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
        attacked, _ = _subset(self.dataset, protocol.pgd_limit, protocol.seed)
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
        attacked, _ = _subset(self.dataset, protocol.apgd_limit, protocol.seed)
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
        perturbed = Perturbed(subset, self.protocol.panels, rows, path)
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
        return [(_subset(subset, limit, seed)[0], attacks) for limit, attacks in groups.items()]

    def _rounds(
        self,
        images: Dataset,
        attacks: Sequence[str],
        accuracy: Accuracy,
        done: set[tuple[str, int]],
        perturbed: Perturbed,
    ) -> Iterator[Found]:
        """Deal the batches out to the processes; yield the rows that do not exist yet in the order of one process."""
        size = self.protocol.batch_size
        batches = [range(start, min(start + size, len(images))) for start in range(0, len(images), size)]
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
        shuffled = self.shuffled if name == self.controlled else None
        rows, x_adv = _attack_batch(self.model, part, name, attack, seed, accuracy, self.device, sides, shuffled)
        fresh = [row for row in rows if (name, row.id) not in done]
        return Found(fresh, perturbed.candidates(rows, x_adv)).packed()

    @property
    def controlled(self) -> str:
        """The attack under which the map with shuffled weights is measured: the first that is not random noise."""
        return next((name for name in self.protocol.attacks if not is_control(name)), CONTROL)

    @cached_property
    def shuffled(self) -> nn.Module | None:
        """The network with shuffled weights; None for a plain function, or if its map cannot be computed."""
        if not isinstance(self.model, nn.Module) or not len(self.dataset):
            return None
        x, y, _ = tensors(self.dataset.subset([0]), self.protocol.seed, self.device)
        return shuffled_if_possible(
            self.model, x, y, self.protocol.attacks[self.controlled].attribution, seed=self.protocol.seed
        )

    def missing_controls(self) -> dict[str, list[str]]:
        """A warning if the control with shuffled weights could not be measured."""
        if not isinstance(self.model, nn.Module) or not len(self.dataset) or self.shuffled is not None:
            return {}
        return {self.controlled: ["a copy of the network has no map, so there is no control with shuffled weights"]}

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


def _written(table: Examples | None) -> tuple[ExampleRow, ...]:
    return table.read().rows if table is not None and table.path.exists() else ()


def _attack_batch(
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
        clean.maps, x, result.x_adv, y, k=attack.eval_k, attribution=attack.attribution, shuffled=shuffled
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


def _add_chance(summary: dict[str, Any], attacks: Mapping[str, ExplanationAttack], dataset: Dataset) -> None:
    """Add k, and the value of every metric for two random maps where it is known, to the summary of each attack."""
    _, height, width = dataset.image_shape
    for name in summary["attacks"].keys() & attacks.keys():
        found, k = summary["attacks"][name], attacks[name].eval_k
        values = {metric.name: metric.by_chance(height, width, k) for metric in METRICS.values()}
        found |= {"k": k, "chance": {metric: value for metric, value in values.items() if value is not None}}


def _pictured(protocol: EvaluationProtocol, summary: Mapping[str, Any]) -> EvaluationProtocol:
    """The protocol with pictures of the map that holds best, if several were compared."""
    best = summary.get("maps", {}).get("attack")
    return replace(protocol, pictured=best) if best in protocol.attacks else protocol


def _budget(attack: ExplanationAttack) -> dict[str, Any]:
    """Norm and radius of the ball and k, with the keys of `holdfast.runs.budget.Budget`."""
    ball = attack.ball
    norm, eps = (None, None) if ball is None else (type(ball).__name__, ball.eps)
    return {"norm": norm, "eps": eps, "k": attack.eval_k}


def _subset(dataset: Dataset, limit: int | None, seed: int) -> tuple[Dataset, str]:
    if limit is None or limit >= len(dataset):
        return dataset, ""
    chosen = dataset.stratified(limit, seed=seed)
    return chosen, f"{limit} of {len(dataset)} images, a stratified subset drawn with seed {seed}"


def _summary(
    rows: Sequence[ExampleRow], accuracy: Accuracy, under_apgd: dict[int, bool], info: RunInfo
) -> dict[str, Any]:
    """Summary of the rows; the accuracies come from the larger sets they were measured on, each with its own n."""
    summary = summarise(rows, info)
    measured = {
        "natural_accuracy": (accuracy.natural, len(accuracy.label)),
        "pgd_accuracy": (accuracy.under_attack, len(accuracy.correct_under_attack)),
    }
    if under_apgd:
        measured["apgd_accuracy"] = (sum(under_apgd.values()) / len(under_apgd), len(under_apgd))
    for name, (share, n) in measured.items():
        summary |= share_with_interval(name, share, n)
    return summary
