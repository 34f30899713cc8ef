"""What `holdfast demo` runs: two trained networks on shipped images, then training on the digits with equal budgets."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.experiment.jobs import Job
from holdfast.experiment.zoo_job import ZooJob
from holdfast.runs.names import CONTROL, STRONGEST
from holdfast.zoo.index import PREFIX

NATURAL, HARDENED = "natural", "erar_plus"
NETWORKS = tuple(f"{PREFIX}fashion-resnet/{method}" for method in (NATURAL, HARDENED))
METHODS = ("natural", "madry", "trades", "erar", "erar_plus")
"""The methods that are trained on the digits, in the order of the table."""

PASSES = {"natural": 100, "madry": 601, "trades": 751, "erar": 10_051, "erar_plus": 2_752}
"""Example-passes of one training step on 50 digits, as counted in training; a test counts them again."""

SETTINGS = {"erar_plus": (("method.settings.weight", "4"), ("method.settings.peak", "0"))}
"""Settings for the digits: the weight of a map of 64 pixels, and the cosine of flattened maps alone."""

EPS = 8 / 255
"""Radius of the perturbations in the first part, that of the presets of fashion-resnet."""

NOISE_STEPS = 6
"""Steps of the random walk that is the control, each of 2.5 / 6 of the radius."""


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """How much the demo does.

    `images` shipped images are attacked with `passes` example-passes each. On the digits, erar_plus trains for `steps`
    steps, and `limit` test images are attacked with `digit_passes` example-passes each.
    """

    images: int = 32
    passes: int = 1000
    steps: int = 900
    limit: int = 60
    digit_passes: int = 2000


QUICK = DemoPlan(images=6, passes=200, steps=12, limit=6, digit_passes=200)
"""A smoke test: the same parts in less than a minute; its figures mean nothing."""


def audit_jobs(out: Path, plan: DemoPlan) -> list[ZooJob]:
    """The natural and the hardened network of the zoo, on images that ship with the package."""
    changes = (
        ("data.name", "fashion-sample"),
        *_measured(plan.images, plan.passes, eps=EPS, ig_steps=30),
        ("evaluate.batch_size", "16"),
        ("evaluate.strongest.limit", "none"),
        ("evaluate.pgd.limit", "100"),
        ("evaluate.pgd.steps", "20"),
        ("evaluate.pgd.step_size", f"{2.5 * EPS / 20:.4g}"),
    )
    return [
        ZooJob(
            preset=name,
            folder=out / f"fashion-{name.rpartition('/')[2]}",
            changes=changes,
            options={"panels": 6},
        )
        for name in NETWORKS
    ]


def training_jobs(out: Path, plan: DemoPlan) -> list[Job]:
    """The methods on the digits, the longest first."""
    slowest_first = ("trades", "madry", "erar_plus", "erar", "natural")
    return [
        Job(
            preset=f"digits/{method}",
            folder=out / method,
            changes=(
                ("train.steps", str(steps_of(method, plan.steps))),
                ("train.log_every", "25"),
                *SETTINGS.get(method, ()),
                *_measured(plan.limit, plan.digit_passes, eps=0.15, ig_steps=20),
            ),
            options={"panels": 3},
        )
        for method in slowest_first
    ]


def steps_of(method: str, steps: int) -> int:
    """Training steps of a method with the example-passes of `steps` steps of erar_plus.

    Natural training, whose steps cost least, takes as many steps as Madry.

    >>> [steps_of(method, 900) for method in METHODS]
    [4121, 4121, 3298, 246, 900]
    """
    costly = "madry" if method == "natural" else method
    return max(1, round(steps * PASSES["erar_plus"] / PASSES[costly]))


def _measured(limit: int, passes: int, *, eps: float, ig_steps: int) -> tuple[tuple[str, str], ...]:
    """Overrides of the evaluation: the strongest attack and noise, both on the map of the centred logit."""
    return (
        ("evaluate.limit", str(limit)),
        ("evaluate.attacks", f'["{STRONGEST}", "{CONTROL}"]'),
        ("evaluate.map_options.score", "centred-logit"),
        ("evaluate.strongest.passes", str(passes)),
        ("evaluate.strongest.ig_steps", str(ig_steps)),
        ("evaluate.ifia.ig_steps", str(ig_steps)),
        ("evaluate.ifia.steps", str(NOISE_STEPS)),
        ("evaluate.ifia.step_size", f"{2.5 * eps / NOISE_STEPS:.4g}"),
        ("evaluate.apgd", "none"),
    )
