"""Evaluate a trained run with the protocol of its config; results are written to the same run directory."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from holdfast.attacks import ExplanationAttack
from holdfast.config import RunConfig, config_from_file
from holdfast.data import Dataset
from holdfast.errors import expected
from holdfast.evaluation import Evaluation, EvaluationProtocol, evaluate
from holdfast.evaluation.protocol import OnProgress, tensors
from holdfast.experiment.layout import CONFIG, PROVENANCE
from holdfast.experiment.networks import load, run_config
from holdfast.experiment.quality import QualityJob, quality_attack
from holdfast.experiment.run import load_data
from holdfast.models import Classifier
from holdfast.models.foreign.registry import is_foreign
from holdfast.recipes import AttackSettings, apgd_pair, make_attacks, pgd, universal
from holdfast.recipes.protocols import AS_BEFORE, DEFAULT
from holdfast.runs import RunInfo
from holdfast.runs.names import (
    CENTRED_CONTROL,
    STRONGEST,
    TRUE_LOGIT,
    UNIVERSAL,
    attack_of,
    control_of,
    on_map,
)
from holdfast.runs.verdict import decisive
from holdfast.storage.json_files import read_json, write_json_atomic
from holdfast.training import joined, pick_device


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Options of an evaluation; None keeps the value of the config."""

    limit: int | None = None
    pgd_limit: int | None = None
    strongest: bool = True
    """Also run the strongest attack."""
    strongest_limit: int | None = None
    """Images for the strongest attack and noise on its map, a part of those of the other attacks."""
    passes: int | None = None
    """Example-passes per image of the strongest attack."""
    universal: int = 0
    """Training images on which a universal perturbation is found; 0 leaves it out."""
    as_before: bool = False
    """Use the protocol of version 0.1: the ensemble of eight attacks, on the maps of the true logit."""
    quality: bool = False
    natural: Path | None = None
    """Run directory of a naturally trained network, whose maps are compared with the maps of this run."""
    network: str | None = None
    """package.module:function of a custom network; a name in a config file is never imported automatically."""
    diagnose: int = 0
    panels: int = 6
    again: bool = False
    """Measure attacks again that were measured with other settings, such as an older edition."""

    def __post_init__(self) -> None:
        for name in ("limit", "pgd_limit", "strongest_limit"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise expected(f"{name} >= 1", got=value, fix="without it, the config decides")


def measure(
    run: Path | str,
    options: MeasureOptions | None = None,
    *,
    device: str = "auto",
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Evaluate the network of a run directory on the test images; existing results are not computed again."""
    folder, options = Path(run), options or MeasureOptions()
    config = config_from_file(folder / CONFIG)
    where = pick_device(device)
    with joined(where) as processes:
        if processes.world_size > 1:  # one process downloads missing data; the others read it from the cache
            processes.leading(lambda: load_data(config, "test"))
        model, data = _network(folder, options).to(where), load_data(config, "test")
        protocol, info = protocol_of(config, options), _info(folder, config, data)
        if options.universal:  # every process finds the same one
            attack = _universal(model, config, options.universal, where)
            protocol = replace(protocol, attacks={**protocol.attacks, UNIVERSAL: attack})
        if options.quality:
            protocol = replace(protocol, keep_images_of=quality_attack(protocol))
        judged = processes.shared(lambda: _quality_before(folder))
        done = evaluate(
            model, data, protocol, info=info, out=folder, device=where, on_progress=on_progress, again=options.again
        )
        if options.quality:
            job = quality_job(model, data, protocol, config)
            natural = None if options.natural is None else _network(options.natural, options).to(where)
            job = replace(job, natural=natural, perturbed=done.perturbed, device=where, processes=processes)
            judged = {"quality": job.run(on_progress), "quality_attack": quality_attack(protocol)}
        if not judged.get("quality"):
            return done
        summary = done.summary | judged
        if processes.leads:
            write_json_atomic(folder / "summary.json", summary)
        return replace(done, summary=summary)


def _network(run: Path, options: MeasureOptions) -> Classifier:
    """The network of a run; `options.network` builds it if it is a custom one."""
    return load(run, network=options.network if is_foreign(run_config(run).model.name) else None)


def protocol_of(config: RunConfig, options: MeasureOptions) -> EvaluationProtocol:
    """The evaluation protocol of a config: its attacks on the maps, and PGD and APGD on the prediction."""
    wanted = config.evaluate
    under, under_apgd = wanted.pgd, wanted.apgd
    attacks, fewer = _attacks(config, options), options.strongest_limit or wanted.strongest.limit
    strong = [name for name in attacks if attack_of(name) in (STRONGEST, TRUE_LOGIT, CENTRED_CONTROL)]
    return EvaluationProtocol(
        attacks=attacks,
        pgd=None if under is None else pgd(**under.model_dump(exclude={"limit"})),
        limit=options.limit or wanted.limit,
        limits={} if fewer is None else dict.fromkeys(strong, fewer),
        pgd_limit=options.pgd_limit or (under.limit if under is not None else None),
        apgd=() if under_apgd is None else apgd_pair(**under_apgd.model_dump(exclude={"limit"})),
        apgd_limit=options.pgd_limit or (under_apgd.limit if under_apgd is not None else None),
        panels=options.panels,
        diagnose=options.diagnose,
        batch_size=wanted.batch_size,
        seed=config.seed,
    )


def map_names(config: RunConfig) -> tuple[str, ...]:
    """The maps that are measured; on the first, attacks have their plain names."""
    return tuple(config.evaluate.maps or (config.evaluate.map,))


def _attacks(config: RunConfig, options: MeasureOptions) -> dict[str, ExplanationAttack]:
    """All attacks on the first map, and on each of the others the attack that decides, with noise as its control."""
    names, settings = attack_names(config, options), _settings(config, options.passes)
    first, *others = map_names(config)
    attacks = make_attacks(replace(settings, map=first), names)
    pair = [name for name in names if name in (decisive(names), control_of(decisive(names), names))]
    for other in others:
        made = make_attacks(replace(settings, map=other, map_options={}), pair)
        attacks |= {on_map(name, other): attack for name, attack in made.items()}
    return attacks


def attack_names(config: RunConfig, options: MeasureOptions) -> tuple[str, ...]:
    """Attacks on the maps: those the config names, by default those of the current protocol."""
    if options.as_before:
        return AS_BEFORE
    names = DEFAULT if config.evaluate.attacks is None else config.evaluate.attacks
    if options.strongest:
        return tuple(names)
    centred = () if options.universal else (CENTRED_CONTROL,)  # the control of no other attack
    return tuple(name for name in names if name not in (STRONGEST, TRUE_LOGIT, *centred))


def _settings(config: RunConfig, passes: int | None = None) -> AttackSettings:
    wanted = config.evaluate
    if wanted.ifia is None:
        raise expected("a section evaluate.ifia in the config", got="none", fix="add it to config.toml")
    strong = {} if wanted.ensemble is None else wanted.ensemble.model_dump(exclude_none=True)
    return AttackSettings(
        **wanted.ifia.model_dump(),
        map=wanted.map,
        map_options=wanted.map_options,
        strongest=wanted.strongest.model_dump(exclude={"limit"}) | ({} if passes is None else {"passes": passes}),
        ensemble=strong,
    )


def _universal(model: Classifier, config: RunConfig, images: int, device: torch.device) -> ExplanationAttack:
    """A universal perturbation found on training images, with the budget of the other attacks."""
    settings, seed = _settings(config), config.seed
    part = load_data(config, "train").stratified(images, seed=seed)
    x, y, keys = tensors(part, seed, device)
    explained = settings.explained(settings.strongest["ig_steps"], "centred-logit")
    return universal(model, x, y, keys=keys, eps=settings.eps, k=settings.eval_k or settings.k, attribution=explained)


def _info(folder: Path, config: RunConfig, data: Dataset) -> RunInfo:
    provenance = read_json(folder / PROVENANCE) if (folder / PROVENANCE).exists() else {}
    cost = total_cost(provenance.get("training", {}))
    return RunInfo(
        dataset=config.dataset,
        method=config.label,
        preset=config.preset,
        seed=config.seed,
        network=config.model.name,
        class_names=data.class_names,
        example_passes=cost.get("example_passes"),
        train_seconds=cost.get("seconds"),
        provenance=provenance,
        maps=map_names(config),
    )


def total_cost(training: dict[str, Any]) -> dict[str, Any]:
    """Example passes and seconds of a training run, including all runs it was initialised from."""
    if "start" not in training:
        return training
    before = total_cost(training["start"])
    return {key: training[key] + before[key] for key in ("seconds", "example_passes") if key in before}


def _quality_before(folder: Path) -> dict[str, Any]:
    """Quality measured by an earlier call, and its attack; kept if this call does not measure it."""
    before = read_json(folder / "summary.json") if (folder / "summary.json").exists() else {}
    return {key: before[key] for key in ("quality", "quality_attack") if key in before}


def quality_job(model: Classifier, data: Dataset, protocol: EvaluationProtocol, config: RunConfig) -> QualityJob:
    """The job that measures the quality of a run's maps; the natural network is compared by the map of the config."""
    paper_map = replace(_settings(config), map=map_names(config)[0]).explained()
    return QualityJob(model=model, data=data, protocol=protocol, paper_map=paper_map)
