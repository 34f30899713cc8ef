"""What the tables of the paper cost: example-passes counted from the presets, FLOPs per pass, and hours on GPUs.

    FLOPs of a run = steps x batch size x passes per example x FLOPs per pass x r   (training)
                   + passes per image x images x FLOPs per pass                     (evaluation)

Passes are counted on a small network of the same kind and on small images, because their number depends on neither.
`r` is also counted: a pass that computes the gradient of the weights costs more than one that does not. Evaluation is
an upper bound: no image is misclassified, no attack succeeds early, and every iterate is judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import flop_registry

from holdfast.bench.machine import flops_of_a_pass
from holdfast.config import RunConfig, complete, make_config
from holdfast.data.registry import find_spec
from holdfast.engine.passes import count_passes
from holdfast.experiment.jobs import dependency_waves
from holdfast.experiment.measure import MeasureOptions, attack_names, protocol_of
from holdfast.experiment.networks import build_model
from holdfast.experiment.tables import OUR_TIER, TABLES
from holdfast.recipes import METHODS
from holdfast.rng import make_keys
from holdfast.runs.names import ENSEMBLE, STRONGEST, TRUE_LOGIT

SMALL_SIDE = 16
SMALL_NETWORKS = {"wrn-28-10": "wrn-10-1"}
TINY = 1e-6
"""Radius of the attacks while their passes are counted: no label changes, so every iterate is judged."""

NATURAL_RATIO = 1.5
"""`r` of a step without an attack: three products per layer in two passes. Used if FLOPs cannot be counted."""


@dataclass(frozen=True, kw_only=True)
class RunCost:
    """Cost of one run; `train_passes` and `evaluation_passes` are totals."""

    preset: str
    network: str
    passes_per_example: float
    train_passes: float
    evaluation_passes: float
    flops_per_pass: float
    ratio: float

    @property
    def flops(self) -> float:
        """Floating-point operations of training and evaluation."""
        return (self.train_passes * self.ratio + self.evaluation_passes) * self.flops_per_pass


@dataclass(frozen=True, kw_only=True)
class TableCost:
    """Cost of one table with one seed: its runs in waves, where a wave starts from the runs of the one before."""

    name: str
    tier: str
    waves: tuple[tuple[RunCost, ...], ...]

    @property
    def runs(self) -> tuple[RunCost, ...]:
        return tuple(run for wave in self.waves for run in wave)

    @property
    def flops(self) -> float:
        return sum(run.flops for run in self.runs)

    def hours(self, gpus: int, rate: float, seeds: int = 1) -> float:
        """Wall-clock hours with one run per GPU; `rate` in FLOP/s per GPU. Longest runs start first."""
        return sum(longest_load([run.flops for run in wave] * seeds, gpus) for wave in self.waves) / rate / 3600


def longest_load(loads: Sequence[float], machines: int) -> float:
    """The largest sum when loads go, the largest first, to the machine that has least.

    >>> longest_load([5.0, 4.0, 3.0, 3.0, 3.0], 2)
    10.0
    """
    sums = [0.0] * machines
    for load in sorted(loads, reverse=True):
        sums[sums.index(min(sums))] += load
    return max(sums)


def table_cost(name: str, tier: str = "paper") -> TableCost:
    """The cost of a table in a tier; a table that the paper does not have exists only in the tier cpu."""
    table = TABLES[name]
    tier = tier if table.in_paper else OUR_TIER
    waves = dependency_waves(table.jobs(Path("does-not-exist"), tier=tier))
    return TableCost(
        name=name,
        tier=tier,
        waves=tuple(tuple(run_cost(job.preset, job.measured) for job in wave) for wave in waves),
    )


@cache
def run_cost(preset: str, measured: bool = True) -> RunCost:
    """The cost of one preset; without evaluation if other runs only start from it."""
    config = complete(make_config(preset))
    passes, ratio = passes_and_ratio(config)
    examples = config.train.steps * config.train.batch_size
    return RunCost(
        preset=preset,
        network=config.model.name,
        passes_per_example=passes,
        train_passes=passes * examples,
        evaluation_passes=evaluation_passes(config) if measured else 0.0,
        flops_per_pass=flops_per_pass(config),
        ratio=ratio,
    )


def flops_per_pass(config: RunConfig) -> float:
    """FLOPs of one image going forward through the full-size network; a multiply-add counts as two."""
    shape = find_spec(config.data.name).image_shape
    return float(flops_of_a_pass(_model(config, config.model.name, shape[1]).eval(), shape))


def passes_and_ratio(config: RunConfig, batch: int = 10) -> tuple[float, float]:
    """Example-passes per example of one training step, and its FLOPs relative to passes x FLOPs per pass."""
    model, x, y, keys = _small(config, batch)
    settings = dict(config.method.settings)
    if "k" in settings:
        settings["k"] = min(int(settings["k"]), SMALL_SIDE**2 // 3)
    objective = METHODS[config.method.name](model.train(), **settings)
    flops = _flops_of(lambda: objective(x, y, keys).total.backward())
    forward = flops_of_a_pass(model.eval(), (x.shape[1], SMALL_SIDE, SMALL_SIDE))
    ratio = NATURAL_RATIO if flops is None else flops / (objective.example_passes * forward)
    return objective.example_passes / batch, ratio


def evaluation_passes(config: RunConfig) -> float:
    """Example-passes of the evaluation of one run: attacks on maps, PGD, APGD and natural accuracy.

    Passes grow linearly with the steps of an attack, so they are counted for two and for four steps. The strongest
    attack has a budget of passes instead of steps.
    """
    tests, strongest = find_spec(config.data.name).counts["test"], config.evaluate.strongest
    few, more = _passes_of_attacks_with_few_steps(config)
    budgets = [name for name in attack_names(config, MeasureOptions()) if name in (STRONGEST, TRUE_LOGIT)]
    attacked = min(config.evaluate.limit or tests, strongest.limit or tests, tests)
    total = float(tests + len(budgets) * attacked * strongest.passes)
    for name in few:
        steps, limit = _steps_and_limit(config, name)
        total += min(limit or tests, tests) * (few[name] + (more[name] - few[name]) / 2 * (steps - 2))
    return total


_COUNTED: dict[str, tuple[dict[str, float], dict[str, float]]] = {}
"""Network, data and evaluation settings -> passes with two and with four steps; all methods of a table share them."""


def _passes_of_attacks_with_few_steps(config: RunConfig) -> tuple[dict[str, float], dict[str, float]]:
    key = f"{config.model.name} {config.data.name} {config.evaluate.model_dump_json()}"
    if key not in _COUNTED:
        _COUNTED[key] = (_passes_of_attacks(config, 2), _passes_of_attacks(config, 4))
    return _COUNTED[key]


def _passes_of_attacks(config: RunConfig, steps: int) -> dict[str, float]:
    """Example-passes per image of every attack of the evaluation, with so many steps each."""
    model, x, _, keys = _small(config, 2)
    y = model.eval()(x).argmax(1)

    def count(run: Callable[..., Any]) -> float:
        with count_passes() as counter:
            run(model, x, y, keys=keys)
        return counter.passes / len(x)

    protocol = protocol_of(_with_steps(config, steps), MeasureOptions())
    stepped = {name: attack for name, attack in protocol.attacks.items() if name not in (STRONGEST, TRUE_LOGIT)}
    found = {name: count(attack.run) for name, attack in stepped.items()}
    if protocol.pgd is not None:
        found["pgd"] = count(protocol.pgd.run)
    if protocol.apgd:
        found["apgd"] = sum(count(attack.run) for attack in protocol.apgd)
    return found


def _steps_and_limit(config: RunConfig, name: str) -> tuple[int, int | None]:
    """Steps of an attack in the config, and the number of images it runs on; None means all."""
    wanted = config.evaluate
    for part in (wanted.pgd, wanted.apgd):
        if part is not None and name == ("pgd" if part is wanted.pgd else "apgd"):
            return part.steps, part.limit
    strong = wanted.ensemble if name == ENSEMBLE else None
    assert wanted.ifia is not None
    return (strong or wanted.ifia).steps, wanted.limit


def _flops_of(run: Callable[[], None]) -> int | None:
    """Call `run` and count its FLOPs; None if a private name of PyTorch that counting needs is missing.

    PyTorch's own `FlopCounterMode` cannot be used: its hooks on modules do not allow `autograd.grad`.
    """
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        run()
        return None

    class Counting(TorchDispatchMode):
        flops: int | None = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            packet = _packet(func)
            if packet is None:
                self.flops = None
            elif self.flops is not None and packet in flop_registry:
                self.flops += int(flop_registry[packet](*args, **(kwargs or {}), out_val=out))
            return out

    with Counting() as counter:  # type: ignore[no-untyped-call]
        run()
    flops: int | None = counter.flops
    return flops


def _packet(func: Any) -> Any:
    """The operation that `func` is an overload of, as `flop_registry` names it; None if PyTorch does not tell."""
    return getattr(func, "_overloadpacket", None)


def _with_steps(config: RunConfig, steps: int) -> RunConfig:
    """The config with so many steps in every attack of its evaluation, and a radius too small to change a label."""
    parts = {name: getattr(config.evaluate, name) for name in ("pgd", "apgd", "ifia", "ensemble")}
    changed = {name: part.model_copy(update={"steps": steps}) for name, part in parts.items() if part is not None}
    changed |= {name: part.model_copy(update={"eps": TINY}) for name, part in changed.items() if name != "ensemble"}
    if "ifia" in changed:
        least = {"k": SMALL_SIDE**2 // 3, "eval_k": SMALL_SIDE**2 // 3}
        changed["ifia"] = changed["ifia"].model_copy(update=least)
    return config.model_copy(update={"evaluate": config.evaluate.model_copy(update=changed)})


def _small(config: RunConfig, batch: int) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A small network of the same kind, and a batch of small random images."""
    spec = find_spec(config.data.name)
    model = _model(config, SMALL_NETWORKS.get(config.model.name, config.model.name), SMALL_SIDE)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (batch, spec.image_shape[0], SMALL_SIDE, SMALL_SIDE), generator=generator) / 255
    ids = torch.arange(batch)
    return model, x, ids % len(spec.class_names), make_keys(0, ids)


def _model(config: RunConfig, name: str, side: int) -> nn.Module:
    spec = find_spec(config.data.name)
    update = {"num_classes": len(spec.class_names), "in_channels": spec.image_shape[0], "image_size": (side, side)}
    return build_model(config.model.model_copy(update={"name": name, **update}), seed=0)
