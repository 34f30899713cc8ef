"""The plan of a hardening: all numbers that follow from the settings, the data and the speed of the machine.

It is made once, from a few timed steps, and stored, so that a resumed run is the same run.
"""

import inspect
import time
from dataclasses import asdict, dataclass, replace
from math import ceil
from statistics import median
from typing import Any

import torch
from torch import nn

from holdfast.data import Dataset, Loader
from holdfast.errors import expected
from holdfast.evaluation.audit_settings import AuditSettings
from holdfast.evaluation.audit_time import fit_to_minutes, minutes_needed
from holdfast.evaluation.cost import Clock
from holdfast.experiment.hardening.settings import HardenSettings
from holdfast.objective import Objective
from holdfast.recipes import METHODS
from holdfast.rng import make_keys
from holdfast.training.guards import without_gradient

SHARE_OF_TRAINING, LEAST_SHARE = 0.75, 0.4
"""Part of the time for training; the two audits share the rest. If the caller fixes what the audits attack, training
gets what they leave, and at least the second share."""

BESIDE_STEPS = 1.3
"""Time of training in units of its timed steps, with the optimiser, the looks at the accuracy and the checkpoints."""

CHECKS = 20
"""How often the accuracy on held-out images is looked at."""

WARM_UP = 0.3
"""Share of the steps over which the radius of the attacks grows to eps."""

FEWEST_STEPS, MOST_EPOCHS = 20, 60

TIMED_STEPS = 6

MAP_PART = "map/map_cosine"
"""The map distance among the parts of the objective of `erar_plus`."""

OWN: dict[str, dict[str, Any]] = {"erar_plus": {"trades_weight": 1.0}}
"""Method -> settings that differ from its defaults, since a trained network is to keep its accuracy."""

MAP_TERM, MOST_WEIGHT = 3.0, 3000.0
"""Size of the map term of `erar_plus` at the start. The distance of two maps depends on network and images, so the
weight is this size divided by the distance that the original network has."""


RATE, RATE_WITH_LAYER_NORM = 1e-3, 1e-4
"""Largest learning rates; transformers, and other networks with layer norm, diverge with that of convolutional ones."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Number of steps, settings of the method, and what the audits attack."""

    method: dict[str, Any]
    steps: int
    every: int
    seconds_per_step: float
    lr: float
    limit: int
    depth: int
    """Budget of the attacks of the audits: passes of the strongest attack, or steps of the top-k attack."""
    unreached: tuple[str, ...] = ()
    """Parameters that the loss does not depend on; they stay as they are."""

    @property
    def warm_up_steps(self) -> int:
        """Steps until the attacks have their full radius."""
        return round(WARM_UP * self.steps)

    def plain(self) -> dict[str, Any]:
        """The plan as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        minutes = self.steps * self.seconds_per_step * BESIDE_STEPS / 60
        return (
            f"{self.steps:,} steps of about {self.seconds_per_step:.2g} s, {minutes:.1f} minutes; "
            f"{self.limit} images are audited before and after"
        )


def method_settings(settings: HardenSettings, image_shape: tuple[int, int, int]) -> dict[str, Any]:
    """The settings of the method: those that depend on eps and on the image, our own, and those of the caller."""
    _, height, width = image_shape
    points = 1 if settings.map == "ig" else 3  # one point of the path does as well as three, in a third of the time
    derived = {
        "eps": settings.eps,
        "attack_steps": 3,
        "step_size": settings.eps / 2,
        "ig_steps": points,
        "attack_ig_steps": 3,
        "k": max(1, height * width // 10),
        "map": settings.map,
        **({} if settings.layer is None else {"layer": settings.layer}),
        **OWN.get(settings.method, {}),
    }
    known = inspect.signature(METHODS[settings.method]).parameters
    unknown = sorted(set(settings.method_settings) - set(known))
    if unknown:
        raise expected(f"settings of {settings.method} among {', '.join(list(known)[1:])}", got=", ".join(unknown))
    return {key: value for key, value in derived.items() if key in known} | dict(settings.method_settings)


def learning_rate(network: nn.Module) -> float:
    """The largest learning rate for a network.

    >>> learning_rate(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))), learning_rate(nn.LayerNorm(8))
    (0.001, 0.0001)
    """
    return RATE_WITH_LAYER_NORM if any(isinstance(m, nn.LayerNorm) for m in network.modules()) else RATE


def audit_settings(settings: HardenSettings, plan: Plan | None = None) -> AuditSettings:
    """The settings of both audits."""
    found = AuditSettings(
        eps=settings.eps,
        map=settings.map,
        layer=settings.layer,
        limit=settings.limit,
        seed=settings.seed,
        strong=settings.strong,
    )
    depth = settings.passes if plan is None else plan.depth
    if depth is not None:
        found = replace(found, passes=depth) if settings.strong else replace(found, steps=depth)
    return found if plan is None else replace(found, limit=plan.limit)


def make_plan(
    network: nn.Module,
    objective: Objective,
    loader: Loader,
    audited: Dataset,
    settings: HardenSettings,
    method: dict[str, Any],
    clock: Clock = time.monotonic,
) -> Plan:
    """Time a few steps and a few attacks, and choose how many of both fit into the minutes."""
    each, distance = try_steps(objective, loader, settings.seed, clock)
    if distance is not None and "weight" not in settings.method_settings:
        method = method | {"weight": float(f"{min(MOST_WEIGHT, MAP_TERM / max(distance, 1e-6)):.3g}")}
    fitted, share = replace(audit_settings(settings), limit=min(settings.limit, len(audited))), SHARE_OF_TRAINING
    if settings.passes is None:
        minutes = settings.minutes * (1 - SHARE_OF_TRAINING) / 2
        fitted = fit_to_minutes(network, audited, fitted, minutes, device=loader.device)
    elif settings.steps is None:
        audits = 2 * minutes_needed(network, audited, fitted, device=loader.device)
        share = max(LEAST_SHARE, 1 - audits / settings.minutes)
    fits = max(FEWEST_STEPS, int(60 * settings.minutes * share / (each * BESIDE_STEPS)))
    steps = settings.steps or min(fits, MOST_EPOCHS * len(loader))
    return Plan(
        method=method,
        steps=steps,
        every=ceil(steps / CHECKS),
        seconds_per_step=round(each, 3),
        lr=settings.lr or learning_rate(network),
        limit=fitted.limit or len(audited),
        depth=fitted.passes if settings.strong else fitted.steps,
        unreached=tuple(without_gradient(network)),
    )


def try_steps(
    objective: Objective, loader: Loader, seed: int, clock: Clock = time.monotonic
) -> tuple[float, float | None]:
    """The median time of a step without the first one, and the mean distance of the maps of `erar_plus`, else None.

    The gradients of the last step are left.
    """
    spent, distances = [], []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # for dropout
        for step in range(TIMED_STEPS):
            x, y, ids = loader.batch(step)
            began = clock()
            objective.zero_grad(set_to_none=True)
            output = objective(x, y, make_keys(seed, ids))
            output.total.backward()
            spent.append(clock() - began)
            distances += [float(output.parts[MAP_PART])] if MAP_PART in output.parts else []
    return max(1e-6, median(spent[1:])), sum(distances) / len(distances) if distances else None
