"""`harden`: fine-tune a trained classifier so that its maps hold, and measure what was gained and lost."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.data import Dataset
from holdfast.data.from_torch import as_dataset
from holdfast.errors import expected
from holdfast.evaluation.protocol import OnProgress
from holdfast.experiment.hardening.images import divide
from holdfast.experiment.hardening.job import Job
from holdfast.experiment.hardening.own_weights import OwnWeights, own_weights
from holdfast.experiment.hardening.result import Hardened
from holdfast.experiment.hardening.settings import HardenSettings
from holdfast.models import Classifier
from holdfast.models.precision import in_float32
from holdfast.runs.provenance import without_folders
from holdfast.training import pick_device


def harden(
    model: nn.Module,
    data: Dataset | Iterable[Any],
    settings: HardenSettings | None = None,
    *,
    held_out: Dataset | Iterable[Any] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    weights: OwnWeights | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
    on_progress: OnProgress | None = None,
    say: Callable[[str], None] = lambda text: None,
    notes: Iterable[str] = (),
    model_name: str = "",
    data_name: str = "",
    resume_command: str = "",
    continue_with: str = "",
    **options: Any,
) -> Hardened:
    """Fine-tune `model`, in place, so that small perturbations change its maps less, and compare it before and after.

    `data` are labelled images: a holdfast dataset or loader, or a PyTorch DataLoader of (x, y). `held_out` are images
    that are not trained on; by default a stratified fifth of `data`. The accuracy is watched on one half of them, both
    audits use the other half. The options are the fields of `HardenSettings`; pass them as keyword arguments or as
    `settings`. Frozen parameters (`requires_grad=False`) are not changed.

    With a folder `out`, the run is saved as it goes, and an interrupted one continues with `resume=True` from the
    original network. The folder then holds the weights under the names and in the precision of `model`, the page
    report.html, and both audits. `weights` describes other names to save them under. `say` is told what happens next.
    `model_name` and `data_name` are how the page calls them; `continue_with` is the command that it recommends.

    >>> import holdfast as hf
    >>> net = hf.models.build("digits-cnn", seed=0)
    >>> digits = hf.data.load("digits")
    >>> hf.harden(net, digits, eps=0.1, steps=2, strong=False, limit=40, passes=1, progress=False).plan.steps
    2
    """
    if settings is not None and options:
        raise expected("settings or options of harden, not both", got=f"settings and {', '.join(options)}")
    settings = settings or HardenSettings(**options)
    where = pick_device(str(device or "auto"))
    images = divide(
        as_dataset(data),
        None if held_out is None else as_dataset(held_out),
        share=settings.holdout,
        seed=settings.seed,
    )
    network = model if isinstance(model, Classifier) else Classifier(model)
    form, more = weights or own_weights(model), in_float32(model)
    job = Job(
        network=network.to(where),
        images=images,
        settings=settings,
        form=form,
        folder=None if out is None else Path(out),
        resume=resume,
        device=where,
        progress=progress,
        on_progress=on_progress,
        say=say,
        notes=(*notes, *more),
        model_name=without_folders(model_name or type(getattr(model, "net", model)).__name__),
        data_name=data_name,
        resume_command=resume_command,
        continue_with=continue_with,
    )
    try:
        return job.run()
    finally:
        form.restore_types()
