"""How long an audit takes, from a short timed run of its attacks, and what fits into a given time."""

import math
import time
from dataclasses import replace

import torch
from torch import nn

from holdfast.data.dataset import Dataset
from holdfast.engine.passes import count_passes
from holdfast.errors import expected
from holdfast.evaluation.audit_settings import AuditSettings, number_of_images, protocol_of_audit, share_of
from holdfast.evaluation.cost import Clock, fit_images_and_steps
from holdfast.evaluation.evaluate import evaluate
from holdfast.evaluation.relabel import relabelled
from holdfast.models import Classifier
from holdfast.runs.names import STRONGEST

PROBE_IMAGES, PROBE_STEPS, PROBE_PASSES = 4, 2, 400
"""What `fit_to_minutes` times."""

FEWEST_PASSES, FEWEST_STEPS = 600, 5
"""`fit_to_minutes` does not go below these numbers of passes, or of steps of the reference attack, per image."""

SHARE_FOR_ATTACKS, SHARE_OF_ATTACKS = 0.75, 0.7
"""Part of the time that `fit_to_minutes` plans for the attacks, and the time of the attacks of a large audit, as timed
here, in units of the whole audit. The rest is for accuracy, checks and the report; and a pass of a long search takes
about a quarter longer than one of the timed run, most of which only computes maps."""


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
    unit, each, least = _time_attacks(model, data, settings, device, clock)
    most = getattr(settings, unit)
    seconds = 60 * minutes * SHARE_FOR_ATTACKS
    limit, depth = fit_images_and_steps(
        each, most, number_of_images(data, settings), seconds, fewest_steps=min(least, most)
    )
    return _with(replace(settings, limit=limit), unit, depth)


def minutes_needed(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings,
    *,
    device: torch.device | str | None = None,
    clock: Clock = time.monotonic,
) -> float:
    """The minutes that an audit with these settings takes, from a short timed run of every attack.

    Small batches take longer per image, so a large audit is timed on more images.
    """
    probed = min(settings.batch_size, max(PROBE_IMAGES, number_of_images(data, settings) // 12))
    unit, each, least = _time_attacks(model, data, settings, device, clock, probed)
    depth: int = max(least, getattr(settings, unit))
    return each * depth * number_of_images(data, settings) / 60 / SHARE_OF_ATTACKS


def _time_attacks(
    model: nn.Module,
    data: Dataset,
    settings: AuditSettings,
    device: torch.device | str | None,
    clock: Clock,
    images: int = PROBE_IMAGES,
) -> tuple[str, float, int]:
    """The unit of the budget ("passes" or "steps"), the seconds that one takes per image, and the fewest possible."""
    network = model if isinstance(model, Classifier) else Classifier(model)
    few = data.stratified(min(images, len(data)), seed=settings.seed)
    strong = STRONGEST in settings.attack_names
    unit = "passes" if strong else "steps"
    tried = min(getattr(settings, unit), PROBE_PASSES if strong else PROBE_STEPS)
    probe = protocol_of_audit(_with(settings, unit, tried), settings.top_k(data))
    probe = replace(probe, diagnose=0, panels=0, pgd=None, apgd=())
    few = relabelled(network, few, device)
    evaluate(network, few.subset([0]), probe, device=device)  # the first call sets things up
    with count_passes() as counter:
        started = clock()
        evaluate(network, few, probe, device=device)
        spent = clock() - started
    if not strong:
        return unit, spent / len(few) / tried, FEWEST_STEPS
    maps = 1 + share_of(STRONGEST, settings.attack_names) * (len(settings.map_names) - 1)  # passes count per map
    taken = math.ceil(counter.passes / len(few) / maps)  # the fewest steps may take more passes than they were given
    return unit, maps * spent / max(1, counter.passes), max(FEWEST_PASSES, taken)


def _with(settings: AuditSettings, unit: str, depth: int) -> AuditSettings:
    return replace(settings, passes=depth) if unit == "passes" else replace(settings, steps=depth)
