"""Measure a trained run as its config says, into the same run directory."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from holdfast.attacks import random_control
from holdfast.attribution import IntegratedGradients
from holdfast.config import RunConfig, config_from_file
from holdfast.data import Dataset, to_float
from holdfast.errors import expected
from holdfast.evaluation import Evaluation, Plan, evaluate
from holdfast.evaluation.plan import Attack, Report
from holdfast.evaluation.quality import map_quality
from holdfast.experiment import CONFIG, PROVENANCE, load, load_data
from holdfast.models import Classifier
from holdfast.recipes import ifia, ifia_ensemble, pgd
from holdfast.results import Facts, describe, read_json, write_json_atomic
from holdfast.training import pick_device


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What a caller may change about a measurement; None leaves what the config says."""

    limit: int | None = None
    pgd_limit: int | None = None
    ensemble: bool = True
    quality: bool = False
    natural: Path | None = None
    """The run of a naturally trained network, for the agreement of the maps with it."""
    network: str | None = None
    """package.module:function of an own network; what a config names is never imported by itself."""
    diagnose: int = 0
    panels: int = 6


def measure(
    run: Path | str, options: MeasureOptions | None = None, *, device: str = "auto", report: Report | None = None
) -> Evaluation:
    """Evaluate the network of a run directory on the test images; what is there already is not done again."""
    folder, options = Path(run), options or MeasureOptions()
    config = config_from_file(folder / CONFIG)
    where = pick_device(device)
    model, data = load(folder, network=options.network).to(where), load_data(config, "test")
    plan = plan_of(config, options)
    kept = _quality_before(folder)
    done = evaluate(model, data, plan, facts=_facts(folder, config, data), out=folder, device=where, report=report)
    fresh = quality(model, config, options, data, where) if options.quality else kept
    if not fresh:
        return done
    summary = done.summary | {"quality": fresh}
    write_json_atomic(folder / "summary.json", summary)
    return replace(done, summary=summary)


def plan_of(config: RunConfig, options: MeasureOptions) -> Plan:
    """The attacks of the config's protocol: reference, ensemble, random control, and PGD on the prediction."""
    protocol = config.evaluate
    if protocol.ifia is None:
        raise expected("a protocol evaluate.ifia in the config", got="none", fix="add it to config.toml")
    main = ifia(**protocol.ifia.model_dump())
    attacks: dict[str, Attack] = {"ifia-topk": main}
    if options.ensemble and protocol.ensemble is not None:
        attacks["ifia-ensemble"] = _ensemble(config)
    attacks["random"] = random_control(main)
    under = protocol.pgd
    return Plan(
        attacks=attacks,
        pgd=None if under is None else pgd(**under.model_dump(exclude={"limit"})),
        limit=options.limit or protocol.limit,
        pgd_limit=options.pgd_limit or (under.limit if under is not None else None),
        panels=options.panels,
        diagnose=options.diagnose,
        batch_size=protocol.batch_size,
        seed=config.seed,
    )


def _ensemble(config: RunConfig) -> Attack:
    protocol, strong = config.evaluate.ifia, config.evaluate.ensemble
    assert protocol is not None  # plan_of asks only then
    assert strong is not None
    settings: dict[str, Any] = strong.model_dump(exclude_none=True)
    settings |= {"eps": protocol.eps, "k": protocol.k, "eval_k": protocol.eval_k, "quantize": protocol.quantize}
    return ifia_ensemble(**settings)


def _facts(folder: Path, config: RunConfig, data: Dataset) -> Facts:
    provenance = read_json(folder / PROVENANCE) if (folder / PROVENANCE).exists() else {}
    cost = total_cost(provenance.get("training", {}))
    return Facts(
        dataset=config.dataset,
        method=config.label,
        preset=config.preset,
        seed=config.seed,
        network=config.model.name,
        class_names=data.class_names,
        example_passes=cost.get("example_passes"),
        train_seconds=cost.get("seconds"),
        provenance=provenance,
    )


def total_cost(training: dict[str, Any]) -> dict[str, Any]:
    """Passes and seconds of a training with those of the run it started from, and so on back."""
    if "start" not in training:
        return training
    before = total_cost(training["start"])
    return {key: training[key] + before[key] for key in ("seconds", "example_passes") if key in before}


def _quality_before(folder: Path) -> dict[str, Any]:
    """What an earlier call has measured, so that one without `quality` does not lose it."""
    before = read_json(folder / "summary.json") if (folder / "summary.json").exists() else {}
    return dict(before.get("quality", {}))


def quality(
    model: Classifier, config: RunConfig, options: MeasureOptions, data: Dataset, device: torch.device
) -> dict[str, Any]:
    """Medians with intervals of the quality of the maps, on the images of the attacks."""
    limit = options.limit or config.evaluate.limit or len(data)
    part = data.stratified(min(limit, len(data)), config.seed)
    steps = config.evaluate.ifia.ig_steps if config.evaluate.ifia is not None else 50
    natural = None if options.natural is None else load(options.natural).to(device)
    found = [
        map_quality(model, to_float(x, device), y.to(device), IntegratedGradients(steps=steps), natural=natural)
        for x, y in zip(part.x.split(64), part.y.split(64), strict=True)
    ]
    columns = {"insertion", "deletion", "randomised", "agreement", "completeness"}
    names = {"agreement": "natural_spearman"}
    values = {c: [getattr(q, c) for q in found] for c in sorted(columns) if getattr(found[0], c) is not None}
    return {names.get(c, c): describe(_finite(torch.cat(v))) for c, v in values.items()}


def _finite(values: torch.Tensor) -> Any:
    return values[values.isfinite()].cpu().double().numpy()
