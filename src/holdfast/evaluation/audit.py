"""Audit of a trained classifier: how far a small perturbation can change its saliency maps.

result = holdfast.audit(model, holdfast.data.load("images/", split="all"))
print(result)
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.attacks.strongest import StrongestAttack
from holdfast.data.dataset import Dataset, to_float
from holdfast.data.from_torch import as_dataset
from holdfast.errors import expected
from holdfast.evaluation.audit_result import Audit
from holdfast.evaluation.audit_settings import (
    AuditSettings,
    explained_map,
    first_batch,
    number_of_images,
    protocol_of_audit,
    share_of,
)
from holdfast.evaluation.evaluate import evaluate
from holdfast.evaluation.preflight import check_before_attacks, check_second_order
from holdfast.evaluation.protocol import EvaluationProtocol, OnProgress, check_protocol
from holdfast.evaluation.relabel import relabelled
from holdfast.models import Classifier
from holdfast.models.precision import computing_in_float32
from holdfast.models.probe import probe_as_they_are
from holdfast.report import view_runs, write_report
from holdfast.runs.folders import check_not_training_run
from holdfast.runs.names import attack_of
from holdfast.runs.provenance import without_folders
from holdfast.runs.run import read_run
from holdfast.runs.summary import RunInfo
from holdfast.training.distributed import current, pick_device

PAGE = "report.html"
"""Name of the page in the output folder."""


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
    model_name: str = "",
    data_name: str = "",
    origin: Mapping[str, Any] | None = None,
    **options: Any,
) -> Audit:
    """Measure how far small perturbations change the maps of `model` on `data`, compared with random noise.

    `data` is a holdfast dataset or loader, a pair (x, y) of tensors or arrays, or a PyTorch DataLoader of (x, y). The
    options are the fields of `AuditSettings`; pass them as keyword arguments or as `settings`. `labels="predicted"`
    explains the predicted class instead of the given label; use it for images without labels. `out` is a folder for
    rows, summary and the page report.html; an interrupted audit resumes from it. `notes` on the network are kept with
    those on data and accuracy. With a `device`, the network is moved there, as `Module.to` does, and so are the images.
    A network of another precision is audited in float32.

    `model_name` and `data_name` are how the page calls the network and the data; by default the name of its class and
    of the dataset. `origin` is for the commands that the page recommends: `command`, the words of the command line, and
    for a network of a run directory `network` and `dataset`, their registered names.

    >>> import holdfast as hf
    >>> net = hf.models.build("digits-cnn", seed=0)
    >>> data = hf.data.load("digits", split="test")
    >>> hf.audit(net, data, labels="predicted", eps=0.1, steps=2, ig_steps=3, limit=8, strong=False)
    Audit(DigitsCNN on digits: cannot say, 8 images)
    """
    settings = _settings(settings, options)
    if labels not in ("given", "predicted"):
        raise expected("labels = 'given' or 'predicted'", got=repr(labels))
    if out is not None:
        check_not_training_run(Path(out))
    with computing_in_float32(model) as converted:
        return run_audit(
            model,
            data,
            settings,
            labels=labels,
            out=out,
            device=device,
            on_progress=on_progress,
            notes=(*notes, *converted),
            model_name=model_name,
            data_name=data_name,
            origin=origin,
        )


def run_audit(
    model: nn.Module,
    data: Dataset | Iterable[Any],
    settings: AuditSettings,
    *,
    labels: str = "given",
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    on_progress: OnProgress | None = None,
    notes: Iterable[str] = (),
    model_name: str = "",
    data_name: str = "",
    origin: Mapping[str, Any] | None = None,
) -> Audit:
    """The same as `audit`, in any folder: that of a hardening holds the audit of its result beside the weights."""
    data, device = as_dataset(data), None if device is None else pick_device(str(device))
    network = model if isinstance(model, Classifier) else Classifier(model)
    if device is not None:
        network.to(device)
    probe_as_they_are(network, to_float(data.x[:2], device))
    if labels == "predicted":
        data = relabelled(network, data, device)
    protocol, k = check_audit(network, data, settings, device), settings.top_k(data)
    named, command = model_name or type(network.net).__name__, tuple((origin or {}).get("command", ()))
    about: dict[str, Any] = {
        "model": without_folders(named),
        "data": without_folders(data_name) or data.name,
        "labels": labels,
        "images": len(data),
        "split": data.split,
        "k": k,
        "settings": _described(settings),
        "told": [*notes, *data.notes, *_unused(settings), *_small_budget(network, data, settings, protocol, device)],
        **(origin or {}),
        "command": [without_folders(word) for word in command],
    }
    info = RunInfo(
        dataset=about["data"],
        method=about["model"],
        preset="audit",
        seed=settings.seed,
        class_names=data.class_names,
        audit=about,
        maps=settings.map_names,
    )
    try:
        done = evaluate(network, data, protocol, info=info, out=out, device=device, on_progress=on_progress)
    except KeyboardInterrupt:
        write_page(out, info)
        raise
    write_page(out, info)
    return Audit(evaluation=done, settings=settings, k=k, command=command)


def check_audit(
    network: Classifier, data: Dataset, settings: AuditSettings, device: torch.device | str | None
) -> EvaluationProtocol:
    """The protocol of an audit; raises if it cannot be measured, before anything is attacked or written."""
    protocol = replace(protocol_of_audit(settings, settings.top_k(data)), first_batch=first_batch(data))
    check_protocol(protocol, data)
    audited = data.stratified(number_of_images(data, settings), settings.seed)
    for one in settings.by_map.values():
        check_before_attacks(network, audited, explained_map(one), device)
    check_second_order(network, audited, protocol.attacks.values(), device)
    return protocol


def _unused(settings: AuditSettings) -> list[str]:
    """A note if `steps` was chosen and no attack takes it."""
    if settings.uses_steps or settings.steps == AuditSettings.steps:
        return []
    return [
        f"steps = {settings.steps} has no effect on these attacks: it is for the reference attack (strong=False, or "
        "--no-strong); for the strongest attack, set passes"
    ]


def _small_budget(
    network: Classifier,
    data: Dataset,
    settings: AuditSettings,
    protocol: EvaluationProtocol,
    device: torch.device | str | None,
) -> list[str]:
    """A note if `passes` is less than what the strongest attacks take with their fewest steps."""
    x, together = to_float(data.x[:1], device), settings.attack_names
    fewest = [
        attack.fewest_passes(network, x) / share_of(attack_of(name), together)
        for name, attack in protocol.attacks.items()
        if isinstance(attack, StrongestAttack)
    ]
    kept = math.ceil(max(fewest, default=0))
    if settings.passes >= kept:
        return []
    each = "per image and map" if len(settings.map_names) > 1 else "per image"
    return [
        f"the attacks took their fewest steps and may exceed the budget of {settings.passes:,} passes {each}; "
        f"they keep one of {kept:,} or more"
    ]


def write_page(out: Path | str | None, info: RunInfo | None = None) -> None:
    """Write the page of an audit, or of what there is of one that was interrupted (`info`); none without rows."""
    if not current().leads:
        return
    if out is not None and (Path(out) / "examples.csv").exists() and (run := read_run(out)).examples.rows:
        write_report(view_runs([run], unfinished=info), Path(out) / PAGE)


def _settings(settings: AuditSettings | None, options: dict[str, Any]) -> AuditSettings:
    if settings is not None and options:
        raise expected("settings or options of audit, not both", got=f"settings and {', '.join(options)}")
    names = [field.name for field in fields(AuditSettings)]
    if unknown := [name for name in options if name not in names]:
        raise expected(f"options of audit among {', '.join(names)}", got=", ".join(unknown))
    return settings or AuditSettings(**options)


def _described(settings: AuditSettings) -> dict[str, Any]:
    """The settings for `summary.json`; maps are named."""
    own = [field.name for field in fields(settings) if field.name not in ("attribution", "map", "maps", "attacks")]
    names = settings.map_names
    maps: dict[str, Any] = {"map": names[0], "maps": list(names)} if len(names) > 1 else {"map": names[0]}
    return {name: getattr(settings, name) for name in own} | maps | {"attacks": list(settings.attack_names)}
