"""Evaluate a network: accuracy, accuracy under PGD and APGD, and the change of its maps under every attack.

Each attack gives one row per example. Rows are written after every batch, so an interrupted evaluation resumes where it
stopped. Only a few perturbed images are kept, and those of `keep_images_of`. Every random number is a hash of (seed,
example id), so the rows do not depend on the batch size.

Several processes (`torchrun`) share the batches. Each batch is the same as in one process, so its rows have the same
bits, and rank 0 writes them in the same order.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.data.dataset import Dataset
from holdfast.data.from_torch import as_dataset
from holdfast.errors import expected
from holdfast.evaluation.default_protocol import default_protocol
from holdfast.evaluation.identity import claim, identity
from holdfast.evaluation.job import Job, subset_of
from holdfast.evaluation.pictures import make_panels, stored_panels
from holdfast.evaluation.preflight import check_network
from holdfast.evaluation.protocol import Evaluation, EvaluationProtocol, OnProgress, check_protocol
from holdfast.evaluation.summary import add_budgets, add_chance, evaluation_summary
from holdfast.models.precision import computing_in_float32
from holdfast.runs.panels import write_panels
from holdfast.runs.provenance import collect_provenance
from holdfast.runs.summary import RunInfo
from holdfast.runs.verdict import add_verdict
from holdfast.storage.json_files import write_json_atomic
from holdfast.storage.lock import owned
from holdfast.training.distributed import Processes, current, pick_device
from holdfast.types import Model


def evaluate(
    model: Model,
    data: Dataset | Iterable[Any],
    protocol: EvaluationProtocol | None = None,
    *,
    info: RunInfo | None = None,
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    on_progress: OnProgress | None = None,
    again: bool = False,
) -> Evaluation:
    """Run `protocol` on `data`. If `out` is given, write to that run directory and resume an interrupted call.

    `data` is a holdfast dataset or loader, a pair (x, y) of tensors or arrays, or a `torch.utils.data.DataLoader` of
    (x, y) or (x, y, id). The default protocol has the usual attacks within 8/255 on 64 images. In a process group all
    processes return all rows; the checks for gradient masking and the pictures are left to rank 0. With a `device`, the
    network is moved there, as `Module.to` does, and so are the images. A network of another precision is evaluated in
    float32. With `again`, attacks that `out` holds with other settings are measured again; their old rows are deleted.

    >>> import holdfast as hf
    >>> model = hf.Classifier(hf.models.build("digits-cnn", seed=0))
    >>> attacks = hf.recipes.make_attacks(hf.recipes.AttackSettings(eps=0.1, steps=2, k=12, ig_steps=3), ["ifia-topk"])
    >>> protocol = hf.EvaluationProtocol(attacks=attacks, limit=10, panels=0)
    >>> evaluate(model, hf.data.load("digits", split="test"), protocol).summary["n"]
    10
    """
    dataset, folder = as_dataset(data), None if out is None else Path(out)
    protocol = protocol or default_protocol(dataset)
    check_protocol(protocol, dataset)
    device = None if device is None else pick_device(str(device))
    if device is not None and isinstance(model, nn.Module):
        model.to(device)
    processes = current()
    job = Job(model, dataset, protocol, folder, device, on_progress, processes)
    with ExitStack() as stack:
        stack.enter_context(computing_in_float32(model))
        check_network(model, dataset, protocol.attacks.values(), device)
        if folder is not None or processes.world_size > 1:
            on_prediction = {"pgd": protocol.pgd, "apgd": protocol.apgd}
            measured = {name: attack for name, attack in on_prediction.items() if attack}
            parts = identity(model, dataset, {**measured, **protocol.attacks}, protocol.seed)
            _check_same(processes, parts)
            processes.leading(lambda: _open(stack, folder, parts, again))
        subset, note = subset_of(dataset, protocol.limit, protocol.seed)
        accuracy = job.accuracy(subset)
        under_apgd = job.under_apgd()
        rows, perturbed = job.attack(subset, accuracy)
        info = info or RunInfo(dataset=dataset.name, method="", preset="", seed=protocol.seed)
        origin = info.provenance or collect_provenance(seeds=[protocol.seed], device=str(device or "cpu"))
        summary = evaluation_summary(rows, accuracy, under_apgd, replace(info, limit=note, provenance=origin))
        add_chance(summary, protocol.attacks, dataset)
        if not processes.leads:
            return Evaluation(rows=tuple(rows), summary=summary)
        for name, warnings in (*job.diagnoses(subset).items(), *job.missing_controls().items()):
            if name in summary["attacks"]:
                summary["attacks"][name]["warnings"] += warnings
        add_budgets(summary, protocol.attacks)
        summary = add_verdict(summary)
        pictured = _pictured(protocol, summary)
        panels = make_panels(model, subset, pictured, rows, device, perturbed.images, stored_panels(folder))
        if folder is not None:
            write_json_atomic(folder / "summary.json", summary)
            if panels is not None:
                write_panels(folder / "panels.npz", panels)
            perturbed.delete_file()
    return Evaluation(rows=tuple(rows), summary=summary, panels=panels, perturbed=perturbed.every)


def _open(stack: ExitStack, folder: Path | None, parts: dict[str, Any], again: bool) -> None:
    """Lock the folder until the end of the evaluation, and check that its rows belong to this evaluation."""
    if folder is not None:
        stack.enter_context(owned(folder))
        claim(folder, parts, again=again)


def _check_same(processes: Processes, parts: dict[str, Any]) -> None:
    """Raise if another process evaluates something else, since its rows would end up in the same table."""
    every = [dict(other) for other in processes.gather(parts)]
    changed = sorted({name for other in every for name in parts if other.get(name) != every[0].get(name)})
    if changed:
        raise expected("the same evaluation in every process", got=f"another {', '.join(changed)} in some")


def _pictured(protocol: EvaluationProtocol, summary: Mapping[str, Any]) -> EvaluationProtocol:
    """The protocol with pictures of the map that holds best, if several were compared."""
    best = summary.get("maps", {}).get("attack")
    return replace(protocol, pictured=best) if best in protocol.attacks else protocol
