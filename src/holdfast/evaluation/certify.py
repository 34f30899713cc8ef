"""Certificates of a few of the audited images: `holdfast audit --certify`."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from holdfast.certificates.certify import certify
from holdfast.certificates.result import Certificates
from holdfast.certificates.settings import CertifySettings
from holdfast.data.dataset import Dataset
from holdfast.engine.gradients import images_per_pass
from holdfast.engine.modes import evaluating
from holdfast.engine.predictions import predictions
from holdfast.evaluation.audit_settings import AuditSettings
from holdfast.evaluation.protocol import OnProgress, tensors
from holdfast.storage.json_files import write_json_atomic

IMAGES = 16
"""Number of images that an audit certifies."""


def certify_audit(
    model: nn.Module,
    data: Dataset,
    audit: AuditSettings,
    settings: CertifySettings | None = None,
    *,
    labels: str = "given",
    out: Path | str | None = None,
    device: torch.device | str | None = None,
    on_progress: OnProgress | None = None,
) -> Certificates:
    """Certify a stratified subset of at most 16 images with the k and the seed of an audit.

    `out` is the folder of the audit. `certificates.json` is written there; the noisy maps, from which an interrupted
    certification resumes, go to its subfolder `certificates`.
    """
    settings = replace(settings or CertifySettings(), k=audit.top_k(data), seed=audit.seed)
    few = data.stratified(min(IMAGES, len(data) if audit.limit is None else audit.limit, len(data)), seed=audit.seed)
    x, y, keys = tensors(few, audit.seed, device)
    if labels == "predicted":
        with evaluating(model):
            y = predictions(model, x, images_per_pass(x), check=True).labels
    folder = None if out is None else Path(out)
    noisy = None if folder is None else folder / "certificates"
    found = certify(model, x, y, settings, keys=keys, out=noisy, on_progress=on_progress)
    if folder is not None:
        write_json_atomic(folder / "certificates.json", {"ids": few.ids.tolist(), **found.summary()})
    return found
